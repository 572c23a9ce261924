// Tells a swipe to the side from a scroll.

import { useRef, useState } from "./vendor/preact-htm.js";

/** The least length of a swipe in pixels. It is wider than a slip of the finger. */
const LENGTH = 110;

/** A shorter way is no swipe yet, in pixels. */
const SLIP = 12;

/** @typedef {{side: "left" | "right", isEnough: boolean}} Swipe */

/**
 * Returns the listeners of an element that moves with the finger, and what a release would do now:
 * the side, and whether the way is long enough. It is `null` while no finger moves.
 * @param {(side: "left" | "right") => void} swiped
 */
export function useSwipe(swiped) {
  const start = useRef({ x: 0, y: 0, isTouch: false });
  const [swipe, setSwipe] = useState(/** @type {Swipe | null} */ (null));
  /** @param {any} event @returns {Swipe} */
  function swipeTo(event) {
    const by = event.clientX - start.current.x;
    const isAcross = Math.abs(event.clientY - start.current.y) < LENGTH / 2;
    return { side: by > 0 ? "right" : "left", isEnough: isAcross && Math.abs(by) >= LENGTH };
  }
  const listeners = {
    onPointerDown: (/** @type {any} */ event) => {
      const isTouch = event.pointerType === "touch" && event.isPrimary;
      start.current = { x: event.clientX, y: event.clientY, isTouch };
    },
    onPointerMove: (/** @type {any} */ event) => {
      if (!start.current.isTouch) return;
      const by = event.clientX - start.current.x;
      event.currentTarget.style.translate = `${by}px`;
      const next = Math.abs(by) < SLIP ? null : swipeTo(event);
      setSwipe((last) =>
        last?.side === next?.side && last?.isEnough === next?.isEnough ? last : next);
    },
    onPointerUp: (/** @type {any} */ event) => {
      if (!start.current.isTouch) return;
      const { side, isEnough } = swipeTo(event);
      end(event);
      if (isEnough) swiped(side);
    },
    // The browser took the touch for a scroll.
    onPointerCancel: end,
  };
  /** @param {any} event */
  function end(event) {
    start.current.isTouch = false;
    event.currentTarget.style.translate = "";
    setSwipe(null);
  }
  return { listeners, swipe };
}
