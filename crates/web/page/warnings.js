// What went wrong in a run while the page was open, such as a disk that takes no entry. It stays
// until the person puts it away.

import { html } from "./vendor/preact-htm.js";
import { use } from "./signal.js";
import { oneLine } from "./text.js";
import { clock } from "./words.js";

/** Older warnings leave the page. The log of the host has them. */
const WARNINGS_MOST = 3;

/**
 * Adds the warnings among events to those before.
 * @param {Warning[]} known
 * @param {HostEvent[]} events
 * @returns {Warning[]}
 */
export function withWarnings(known, events) {
  const told = events.flatMap(({ at_ms, what }) =>
    what.run?.event === "warning" ? [{ at_ms, text: String(what.run.text ?? "") }] : [],
  );
  return told.length === 0 ? known : [...known, ...told].slice(-WARNINGS_MOST);
}

/** @param {{store: LiveStore}} props */
export function Warnings({ store }) {
  const warnings = use(store.warnings);
  if (warnings.length === 0) return null;
  return html`<div class="warnings" role="status"><ul>${warnings.map(({ at_ms, text }) => html`<li
    key=${`${at_ms} ${text}`}>${clock(at_ms)} ${oneLine(text, 500)}</li>`)}</ul>
    <button class="quiet" onClick=${() => {
      store.warnings.value = [];
    }}>Put away</button></div>`;
}
