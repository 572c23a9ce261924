// Whether a run of pitcrew takes what a person decides. Only such a run can.

import { use } from "./signal.js";

/**
 * Returns why no run of pitcrew takes commands and answers for the team. It is empty if one does, and
 * for an archived team. It is for components.
 * @param {LiveStore} store
 */
export function useNoRun(store) {
  const { running_in_words: led, outcome } = use(store.host);
  const link = use(store.link);
  if (led) return "Another client leads this team: it answers there, and takes messages from here.";
  if (outcome && link !== "gone") return "The run has ended.";
  return link === "gone" ? "The team is stopped: it takes messages, and acts when it is resumed." : "";
}
