// A component whose module is loaded when it is first shown.

import { html, useEffect, useState } from "./vendor/preact-htm.js";

/** @param {{load: () => Promise<any>, [prop: string]: any}} props */
export function Lazy({ load, ...props }) {
  const [shown, setShown] = useState(/** @type {{component: any} | null} */ (null));
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let isOver = false;
    load().then(
      (component) => isOver || setShown({ component }),
      () => isOver || setFailed(true),
    );
    return () => {
      isOver = true;
    };
  }, [load]);
  if (failed) return html`<p class="error" role="alert">This view cannot be loaded.</p>`;
  return shown && html`<${shown.component} ...${props} />`;
}
