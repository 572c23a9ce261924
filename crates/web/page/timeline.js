// The timeline of a team, with filters. Only the visible entries are in the document.

import { html, useEffect, useMemo, useState } from "./vendor/preact-htm.js";
import { List } from "./list.js";
import { GROUPS, Matches } from "./log.js";
import { Text } from "./long.js";
import { typed, use } from "./signal.js";
import { oneLine, visible } from "./text.js";
import { clock } from "./words.js";

/** The height of an entry in pixels, on a wide and on a narrow screen. */
const ROW = 30;
const TALL_ROW = 50;

const WIDE = matchMedia("(min-width: 720px)");

/** @param {{store: Store, isNarrow?: boolean}} props */
export function Timeline({ store, isNarrow = false }) {
  const { log } = store;
  const _drawnAgain = use(log.version);
  const filter = use(store.filter);
  const [open, setOpen] = useState(/** @type {Entry | null} */ (null));
  const [isWide, setIsWide] = useState(WIDE.matches);
  useEffect(() => {
    const look = () => setIsWide(WIDE.matches);
    WIDE.addEventListener("change", look);
    return () => WIDE.removeEventListener("change", look);
  }, []);
  const matches = useMemo(() => new Matches(log), [log]);
  const found = matches.of(filter);
  const isTall = isNarrow || !isWide;
  const isFiltered = filter.group !== "all" || filter.words !== "";
  return html`<section class=${`timeline ${isTall ? "tall" : ""}`} aria-label="Timeline">
    <${FilterBar} filter=${filter} set=${(/** @type {Filter} */ it) => { store.filter.value = it; }}
      count=${found.length} />
    <${List} label="Entries of the timeline" count=${found.length} row=${isTall ? TALL_ROW : ROW}
      empty=${isFiltered ? "nothing found" : "nothing happened yet"}
      onOpen=${(/** @type {number} */ index) => setOpen(found[index] ?? null)}
      render=${(/** @type {number} */ index) => entryRow(found[index])} />
    ${open && html`<${Whole} entry=${open} close=${() => setOpen(null)} />`}
  </section>`;
}

/** @param {{filter: Filter, set: (filter: Filter) => void, count: number}} props */
function FilterBar({ filter, set, count }) {
  return html`<div class="filter" role="search">
    <select aria-label="Kind of entries" value=${filter.group}
      onChange=${typed((group) => set({ ...filter, group }))}>
      <option value="all">all</option>
      ${Object.keys(GROUPS).map((group) => html`<option key=${group}>${group}</option>`)}
    </select>
    <input type="search" aria-label="Search the timeline" placeholder="words, @name"
      value=${filter.words} maxlength="100"
      onInput=${typed((words) => set({ ...filter, words }))} />
    <span class="note" aria-label="Number of entries">${count}</span>
  </div>`;
}

/** @param {Entry | undefined} entry */
function entryRow(entry) {
  if (!entry) return null;
  const time = clock(entry.at_ms);
  return html`<span class=${`entry k-${visible(entry.kind)} ${entry.isFailure ? "failure" : ""} ${
    entry.isToTeam ? "to-team" : ""}`}>
    ${time && html`<time>${time}</time>`}
    <b>${visible(entry.agent ?? "team")}</b>
    <span class="what">${oneLine(entry.text, 300)}</span>
  </span>`;
}

/** @param {{entry: Entry, close: () => void}} props */
function Whole({ entry, close }) {
  return html`<aside class="whole" aria-label="The whole entry">
    <header><b>${visible(entry.agent ?? "team")}</b>
      <span class="note">${entry.to.length > 0 && `to ${visible(entry.to.join(", "))} `}${
        clock(entry.at_ms)}</span>
      <button class="quiet" onClick=${close}>Close</button></header>
    <div class="long" tabindex="0"><${Text} text=${entry.content ?? entry.text} /></div>
  </aside>`;
}
