// The receiver of the message that a person writes. Cards choose it, and the draft shows it.

import { Signal } from "./signal.js";

/** The receiver of the draft. An empty name is the lead. */
export const to = new Signal("");

/**
 * Addresses the draft to an agent and moves the focus to it.
 * @param {string} name
 */
export function recipient(name) {
  to.value = name;
  document.getElementById("draft")?.focus();
}
