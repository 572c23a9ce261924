// Keeps the focus on the page when what had it is answered and goes. Otherwise the keyboard and the
// screen reader begin again at the top.

import { useEffect, useLayoutEffect, useRef } from "./vendor/preact-htm.js";

/**
 * Follows the focus in a section. When the thing that had it is gone, the first heading of the
 * section gets it, or else the content of the page. `key` is another one when the section shows
 * another thing.
 * @param {string} key
 */
export function useKeptFocus(key) {
  const section = useRef(/** @type {HTMLElement | null} */ (null));
  const isIn = useRef(false);
  function mend() {
    if (!isIn.current || document.activeElement !== document.body) return;
    const heading = section.current?.querySelector("h2");
    const next = heading ?? document.getElementById("main");
    heading?.setAttribute("tabindex", "-1");
    next?.focus({ preventScroll: heading === undefined });
  }
  useLayoutEffect(mend, [key]);
  // At the end of this section its elements are still on the page.
  useEffect(() => () => void setTimeout(mend), []);
  return {
    ref: section,
    onFocusIn: () => {
      isIn.current = true;
    },
    onFocusOut: (/** @type {FocusEvent} */ event) => {
      // An element that is removed gives the focus to nothing.
      if (event.relatedTarget) isIn.current = false;
    },
  };
}
