// The button that changes the colours.

import { html } from "./vendor/preact-htm.js";
import { use } from "./signal.js";
import { nextTheme, theme } from "./theme.js";

/** @type {Record<string, string>} */
const MARKS = { system: "◐", dark: "●", light: "○" };

export function Colours() {
  const colours = use(theme);
  return html`<button class="quiet" onClick=${nextTheme}
    aria-label=${`Colours: ${colours}`}>${MARKS[colours] ?? "◐"}</button>`;
}
