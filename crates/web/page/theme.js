// The colours of the page: those of the system, or the ones that the user chose.

import { Signal } from "./signal.js";

const KEY = "pitcrew theme";
const THEMES = ["system", "dark", "light"];

/** @returns {string} */
function stored() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    // The browser can refuse to store anything.
    return "system";
  }
}

export const theme = new Signal(stored());

function apply() {
  const root = document.documentElement;
  if (theme.value === "dark" || theme.value === "light") root.dataset.theme = theme.value;
  else delete root.dataset.theme;
}

apply();

export function nextTheme() {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system";
  apply();
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // The choice then holds until the page is closed.
  }
}
