// A list of which only the visible rows are in the document. All rows have the same height.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";

/** The number of rows beyond the visible ones. They make short scrolls free of blanks. */
const MARGIN = 8;

/**
 * Returns the rows that are in the document.
 * @param {number} top the scroll position
 * @param {number} height the height of the window
 * @param {number} row the height of a row
 * @param {number} count
 */
export function range(top, height, row, count) {
  const first = Math.max(0, Math.floor(top / row) - MARGIN);
  const last = Math.min(count, Math.ceil((top + height) / row) + MARGIN);
  return { first: Math.min(first, last), last };
}

/**
 * A windowed list box. It follows new rows while its end is visible.
 * @param {{
 *   label: string, count: number, row: number, render: (index: number) => any,
 *   onOpen: (index: number) => void, empty: string,
 * }} props
 */
export function List({ label, count, row, render, onOpen, empty }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const isAtEnd = useRef(true);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(-1);
  useLayoutEffect(stay, [count, row]);
  useEffect(() => observed(box.current, () => { stay(); look(); }), []);
  function stay() {
    const element = box.current;
    if (element && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }
  function look() {
    const element = box.current;
    if (!element) return;
    const { scrollTop: top, clientHeight: height, scrollHeight } = element;
    isAtEnd.current = top + height >= scrollHeight - row;
    setView((view) => (view.top === top && view.height === height ? view : { top, height }));
  }
  /** @param {KeyboardEvent} event */
  function key(event) {
    const page = Math.max(1, Math.floor(view.height / row) - 1);
    const to = moved(event.key, active < 0 ? count - 1 : active, page, count);
    if (event.key === "Enter" && active >= 0) onOpen(active);
    else if (to === null) return;
    else select(to);
    event.preventDefault();
  }
  /** @param {number} index */
  function select(index) {
    setActive(index);
    const element = box.current;
    if (!element) return;
    const top = index * row;
    if (top < element.scrollTop) element.scrollTop = top;
    const bottom = top + row - element.clientHeight;
    if (bottom > element.scrollTop) element.scrollTop = bottom;
    look();
  }
  const { first, last } = range(view.top, view.height, row, count);
  const rows = [];
  for (let index = first; index < last; index += 1) {
    rows.push(html`<div key=${index} id=${`row-${index}`} role="option" class="row"
      aria-selected=${index === active} aria-setsize=${count} aria-posinset=${index + 1}
      style=${{ top: `${index * row}px`, height: `${row}px` }}
      onClick=${() => { select(index); onOpen(index); }}>${render(index)}</div>`);
  }
  const isShown = active >= first && active < last;
  return html`<div class="list" role="listbox" tabindex="0" aria-label=${label} ref=${box}
    aria-activedescendant=${isShown ? `row-${active}` : undefined} onScroll=${look} onKeyDown=${key}>
    <div class="rows" role="presentation" style=${{ height: `${count * row}px` }}>${rows}</div>
    ${count === 0 && html`<p class="empty" role="option" aria-selected="false">${empty}</p>`}
  </div>`;
}

/**
 * Returns the row to which a key leads. Returns `null` for every other key.
 * @param {string} key
 * @param {number} at
 * @param {number} page
 * @param {number} count
 */
export function moved(key, at, page, count) {
  /** @type {Record<string, number>} */
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
  const step = steps[key] ?? (key === "Home" ? -count : key === "End" ? count : null);
  return step === null || count === 0 ? null : Math.min(count - 1, Math.max(0, at + step));
}

/**
 * Calls a function when the size of an element changes, until the returned function is called.
 * @param {Element | null} element
 * @param {() => void} look
 */
export function observed(element, look) {
  if (!element) return undefined;
  const observer = new ResizeObserver(look);
  observer.observe(element);
  return () => observer.disconnect();
}
