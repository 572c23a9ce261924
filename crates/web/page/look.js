// Looks at something again from time to time, because nothing tells of its changes.

import { useEffect, useRef } from "./vendor/preact-htm.js";

/** The time between two looks while the page is visible, in milliseconds. */
const LOOK_MS = 10_000;

/**
 * Calls a function every few seconds while the page is visible, and when the window gets the focus
 * or the network is back. It is for components.
 * @param {boolean} isNeeded
 * @param {() => unknown} look
 */
export function useLooks(isNeeded, look) {
  const latest = useRef(look);
  latest.current = look;
  useEffect(() => {
    if (!isNeeded) return undefined;
    const again = () => void (document.hidden || latest.current());
    const timer = setInterval(again, LOOK_MS);
    addEventListener("focus", again);
    addEventListener("online", again);
    return () => {
      clearInterval(timer);
      removeEventListener("focus", again);
      removeEventListener("online", again);
    };
  }, [isNeeded]);
}
