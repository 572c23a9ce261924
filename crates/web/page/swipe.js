// Tells a swipe to the side from a scroll.

import { useRef } from "./vendor/preact-htm.js";

/** The least length of a swipe in pixels. It is wider than a slip of the finger. */
const LENGTH = 110;

/**
 * Returns the listeners of an element that moves with the finger, and the way that it went.
 * @param {(side: "left" | "right") => void} swiped
 */
export function useSwipe(swiped) {
  const start = useRef({ x: 0, y: 0, isTouch: false });
  /** @param {any} event */
  const by = (event) => event.clientX - start.current.x;
  return {
    onPointerDown: (/** @type {any} */ event) => {
      const isTouch = event.pointerType === "touch" && event.isPrimary;
      start.current = { x: event.clientX, y: event.clientY, isTouch };
    },
    onPointerMove: (/** @type {any} */ event) => {
      if (start.current.isTouch) event.currentTarget.style.translate = `${by(event)}px`;
    },
    onPointerUp: (/** @type {any} */ event) => {
      if (!start.current.isTouch) return;
      const isAcross = Math.abs(event.clientY - start.current.y) < LENGTH / 2;
      end(event);
      if (isAcross && Math.abs(by(event)) >= LENGTH) swiped(by(event) > 0 ? "right" : "left");
    },
    // The browser took the touch for a scroll.
    onPointerCancel: end,
  };
  /** @param {any} event */
  function end(event) {
    start.current.isTouch = false;
    event.currentTarget.style.translate = "";
  }
}
