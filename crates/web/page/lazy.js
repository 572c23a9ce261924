// A component whose module is loaded when it is first shown, or before that while the browser rests.

import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { Frame, Unavailable } from "./frame.js";
import { useLooks } from "./look.js";

/** @typedef {() => Promise<any>} Load */

/** The components that are loaded. @type {Map<Load, any>} */
const loaded = new Map();

/** @param {Load} load */
async function loadOnce(load) {
  if (!loaded.has(load)) loaded.set(load, await load());
}

/**
 * Loads components while the browser has nothing else to do. They are then there when the server is
 * away.
 * @param {Load[]} loads
 */
export function loadAhead(loads) {
  // Safari has no idle callbacks.
  const whenIdle = globalThis.requestIdleCallback ?? setTimeout;
  whenIdle(async () => {
    // One that fails is loaded again when it is shown.
    for (const load of loads) await loadOnce(load).catch(() => {});
  });
}

/**
 * `title` is the heading if the component cannot be loaded, and `home` its way back if it is the
 * whole page.
 * @param {{load: Load, title?: string, home?: string, [prop: string]: any}} props
 */
export function Lazy({ load, title, home, ...props }) {
  const [{ isFailed }, set] = useState({ isFailed: false });
  const read = () => loadOnce(load).then(
    () => set({ isFailed: false }),
    () => set({ isFailed: true }),
  );
  async function again() {
    await read();
    // Some browsers keep the failure of a module until the page is loaded anew.
    if (!loaded.has(load)) void fetch("/").then(() => location.reload(), () => {});
  }
  useEffect(() => void read(), [load]);
  const Component = loaded.get(load);
  useLooks(isFailed && !Component, read);
  if (Component) return html`<${Component} ...${props} />`;
  if (!isFailed) return null;
  const said = html`<${Unavailable} text="This view cannot be loaded." again=${again} />`;
  if (home) return html`<${Frame} title=${title} back=${home}>${said}<//>`;
  return title ? html`<div class="page"><h1>${title}</h1>${said}</div>` : said;
}
