// A text of any length. Its beginning is shown, and the rest on request.

import { html, useState } from "./vendor/preact-htm.js";
import { visible } from "./text.js";

/** The number of characters that are shown at once. */
const SHOWN_CHARS = 20_000;

/** @param {{text: string | undefined}} props */
export function Text({ text = "" }) {
  const [most, setMost] = useState(SHOWN_CHARS);
  return html`<pre class="text">${visible(text.slice(0, most))}</pre>
    ${text.length > most && html`<button class="quiet"
      onClick=${() => setMost(text.length)}>Show all ${text.length} characters</button>`}`;
}
