// The latest message to the whole team.

import { html } from "./vendor/preact-htm.js";
import { use } from "./signal.js";
import { oneLine, visible } from "./text.js";
import { clock } from "./words.js";

/** @param {{store: Store}} props */
export function Banner({ store }) {
  const entry = use(store.log.banner);
  if (!entry) return null;
  return html`<section class="banner" aria-label="Message to the team">
    <p><b>@team</b> <span class="note">${visible(entry.agent ?? "")} to ${
      visible(entry.to.join(", "))} ${clock(entry.at_ms)}</span></p>
    <p>${oneLine(entry.summary ?? entry.content ?? entry.text, 300)}</p>
  </section>`;
}
