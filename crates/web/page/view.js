// The page of `pitcrew view`: one replay, which can grow while a client writes. A document that has
// the replay in itself shows that one and asks nobody.

import { html, render } from "./vendor/preact-htm.js";
import { get } from "./api.js";
import { Replay } from "./replay.js";

/** @typedef {import("./replaying.js").ReplayStore} ReplayStore */

const inlined = document.getElementById("replay")?.textContent;

/** @returns {Promise<Recorded>} */
async function read() {
  return inlined ? JSON.parse(inlined) : get("/api/view/replay");
}

/**
 * Adds the events that come, until the returned function is called.
 * @param {ReplayStore} store
 */
function follow(store) {
  const source = new EventSource(`/api/view/events?from=${store.recording.next}`);
  source.addEventListener("events", ({ data }) => store.add(JSON.parse(data)));
  source.addEventListener("end", ({ data }) => {
    source.close();
    store.isLive.value = false;
    store.error.value = JSON.parse(data) ?? "";
  });
  // The page was too slow and the oldest events have left the server, or the file was begun again.
  source.addEventListener("again", () => location.reload());
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) store.error.value = "The server does not answer.";
  };
  return () => source.close();
}

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.textContent = "";
render(
  html`<div class="app"><${Replay} name="replay/view" read=${read} follow=${follow} /></div>`,
  root,
);
