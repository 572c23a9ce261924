// A page whose content is not there: a header with a way back, a heading, and what to say.

import { html } from "./vendor/preact-htm.js";

/** @param {{title: string, back?: string, children?: unknown}} props */
export function Frame({ title, back, children }) {
  return html`<header class="top"><div class="line plain">
      ${back && html`<a class="brand" href=${back}><span aria-hidden="true">‹</span> Teams</a>`}
      <b class="name">pitcrew</b></div></header>
    <main id="main" tabindex="-1"><div class="page"><h1>${title}</h1>${children}</div></main>`;
}

/** @param {{text: string, again: () => unknown}} props */
export function Unavailable({ text, again }) {
  return html`<p class="error" role="alert">${text}</p>
    <p class="again"><button onClick=${again}>Try again</button></p>`;
}
