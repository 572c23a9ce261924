// Knows which part of a text was on the screen. A person may approve a call or a plan only after
// all of it was visible, or after the person skipped the rest expressly.

import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";

/** @typedef {[number, number]} Interval */

/** A gap of this height is a rounding error, in pixels. */
const SLACK = 2;

/**
 * Adds an interval to sorted intervals that do not touch.
 * @param {Interval[]} intervals
 * @param {Interval} added
 * @returns {Interval[]}
 */
export function add(intervals, [from, to]) {
  /** @type {Interval[]} */
  const apart = [];
  for (const [start, end] of intervals) {
    if (end < from - SLACK || start > to + SLACK) {
      apart.push([start, end]);
    } else {
      from = Math.min(from, start);
      to = Math.max(to, end);
    }
  }
  return [...apart, /** @type {Interval} */ ([from, to])].sort((a, b) => a[0] - b[0]);
}

/**
 * Returns the height that was not visible yet.
 * @param {Interval[]} intervals
 * @param {number} height
 */
export function unseen(intervals, height) {
  const seen = intervals.reduce((sum, [from, to]) => sum + Math.min(to, height) - from, 0);
  return height - seen <= SLACK ? 0 : height - seen;
}

/**
 * Returns the part of a box's content that is on the screen, in pixels of the content.
 * @param {Element} box
 * @returns {Interval | null}
 */
function onScreen(box) {
  const rect = box.getBoundingClientRect();
  let [top, bottom] = [Math.max(rect.top, 0), Math.min(rect.bottom, innerHeight)];
  for (let outer = box.parentElement; outer; outer = outer.parentElement) {
    if (getComputedStyle(outer).overflowY === "visible") continue;
    const bounds = outer.getBoundingClientRect();
    top = Math.max(top, bounds.top);
    bottom = Math.min(bottom, bounds.bottom);
  }
  if (bottom <= top || document.hidden) return null;
  const start = box.scrollTop - rect.top - box.clientTop;
  return [Math.max(0, start + top), start + bottom];
}

/**
 * Follows what a person sees of a box. `key` names its text: another text was not seen.
 * @param {string} key
 */
export function useReading(key) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const seen = useRef({ key, width: 0, intervals: /** @type {Interval[]} */ ([]) });
  const [rest, setRest] = useState({ key, share: 1, isSkipped: false });
  function look() {
    const element = box.current;
    if (!element) return;
    const width = element.clientWidth;
    // At another width the lines break elsewhere.
    if (seen.current.key !== key || seen.current.width !== width) {
      seen.current = { key, width, intervals: [] };
    }
    const visible = onScreen(element);
    if (visible) seen.current.intervals = add(seen.current.intervals, visible);
    const share = unseen(seen.current.intervals, element.scrollHeight) / element.scrollHeight;
    setRest((rest) => {
      const isSkipped = rest.key === key && rest.isSkipped;
      return rest.key === key && rest.share === share ? rest : { key, share, isSkipped };
    });
  }
  useLayoutEffect(look);
  useEffect(() => {
    const options = { capture: true, passive: true };
    addEventListener("scroll", look, options);
    addEventListener("resize", look);
    document.addEventListener("visibilitychange", look);
    return () => {
      removeEventListener("scroll", look, options);
      removeEventListener("resize", look);
      document.removeEventListener("visibilitychange", look);
    };
  }, [key]);
  const isRead = rest.key === key && (rest.share === 0 || rest.isSkipped);
  return { box, isRead, skip: () => setRest({ key, share: rest.share, isSkipped: true }) };
}
