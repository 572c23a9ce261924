// Tells the user what needs attention while the page is open: in the title, to a screen reader,
// and as a notification of the system if the user allowed it.

import { heading } from "./questions.js";
import { Signal } from "./signal.js";
import { visible } from "./text.js";
import { endInWords } from "./words.js";

/** How long news stay for a screen reader, in milliseconds. */
const NEWS_MS = 10_000;

/** The latest news. A live region reads it out. */
export const news = new Signal("");

/** The user's answer about notifications: `default`, `granted` or `denied`. */
export const allowed = new Signal(
  "Notification" in globalThis ? Notification.permission : /** @type {const} */ ("denied"),
);

export async function askToNotify() {
  allowed.value = await Notification.requestPermission();
}

/**
 * Watches a team until the returned function is called.
 * @param {Store} store
 * @returns {() => void}
 */
export function watch(store) {
  /** @type {Set<string>} */
  let known = new Set();
  let wasEnded = true;
  function look() {
    const { questions, outcome } = store.host.value;
    const plans = store.plans.value.filter((plan) => plan.state === "open");
    const waiting = new Map([
      ...questions.map((it) => /** @type {const} */ ([it.id, heading(it.question)])),
      ...plans.map((it) => /** @type {const} */ ([it.request_id, planned(it)])),
    ]);
    for (const [id, text] of waiting) if (!known.has(id)) tell(store.name, text);
    known = new Set(waiting.keys());
    const isEnded = outcome !== null;
    if (isEnded && !wasEnded) tell(store.name, `the run ended: ${endInWords(outcome.end)}`);
    wasEnded = isEnded;
    const count = waiting.size > 0 ? `(${waiting.size}) ` : "";
    document.title = `${count}${visible(store.host.value.team.team || store.name)} · pitcrew`;
  }
  look();
  const stops = [store.host.listen(look), store.plans.listen(look)];
  return () => {
    for (const stop of stops) stop();
    document.title = "pitcrew";
  };
}

/** @param {Plan} plan */
function planned(plan) {
  return `${visible(plan.member)} asks to approve its plan`;
}

/**
 * @param {string} team
 * @param {string} text
 */
function tell(team, text) {
  news.value = text;
  // It was read out. Later it would only be old news to who finds it.
  setTimeout(() => news.value === text && (news.value = ""), NEWS_MS);
  if (!document.hidden || allowed.value !== "granted") return;
  // All tabs of the browser use the same tag, so the user gets one notification.
  const shown = new Notification(`pitcrew: ${visible(team)}`, { body: text, tag: team + text });
  shown.onclick = () => focus();
}
