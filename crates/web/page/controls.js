// What a person can do with an agent of a run: interrupt it, change its mode, stop it.

import { html, useEffect, useMemo, useState } from "./vendor/preact-htm.js";
import { call, inWords, ofTeam } from "./api.js";
import { OVER } from "./fold.js";
import { recipient } from "./recipient.js";
import { useNoRun } from "./run.js";
import { useMay } from "./session.js";
import { typed, use } from "./signal.js";
import { visible } from "./text.js";

const MODES = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];

/** A button waits this long for the second click that confirms the first, in milliseconds. */
const SURE_MS = 6000;

/**
 * Shows the controls, or says why there are none.
 * @param {{store: LiveStore, agent: Agent}} props
 */
export function Controls({ store, agent }) {
  const { lead } = use(store.host).team;
  const noRun = useNoRun(store);
  const mayControl = useMay("everything");
  if (use(store.isArchived) || !mayControl) return null;
  if (noRun) return html`<p class="note">${noRun}</p>`;
  if (OVER.includes(agent.status)) {
    return html`<p class="note">It takes no commands any more.</p>`;
  }
  return html`<${Buttons} team=${store.name} agent=${agent} isLead=${agent.name === lead} />`;
}

/** @param {{team: string, agent: Agent, isLead: boolean}} props */
function Buttons({ team, agent, isLead }) {
  const [said, setSaid] = useState("");
  const [sure, setSure] = useState("");
  /**
   * @param {string} method
   * @param {string[]} parts
   * @param {unknown} body
   * @param {string} done
   */
  async function act(method, parts, body, done) {
    setSure("");
    try {
      await call(method, ofTeam(team, "members", agent.name, ...parts), body);
      setSaid(done);
    } catch (error) {
      setSaid(inWords(error));
    }
  }
  /** @param {string} word @param {() => void} action */
  const twice = (word, action) => () => (sure === word ? action() : setSure(word));
  useEffect(() => {
    const timer = sure && setTimeout(() => setSure(""), SURE_MS);
    return () => timer && clearTimeout(timer);
  }, [sure]);
  // The process of an agent in a pane takes the keys of its pane.
  const isInPane = !["", "in-process"].includes(agent.backend_type ?? "");
  const leave = twice("leave", () => void act("DELETE", [], {}, "It was asked to shut down."));
  const stop = twice("stop", () => void act("POST", ["stop"], {}, "It was stopped."));
  // On a small screen they would hide the conversation below them.
  const isOpen = useMemo(() => matchMedia("(min-width: 720px)").matches, []);
  return html`<details class="of-run" open=${isOpen}><summary>Controls</summary>
    <div class="controls" role="group" aria-label="Controls">
    <button class="quiet" onClick=${() => recipient(agent.name)}>Message</button>
    ${isInPane ? html`<span class="note">Interrupt it with the keys of its pane.</span>`
      : html`<button class="quiet" onClick=${() => act("POST", ["interrupt"], {}, "Interrupted.")}>
        Interrupt</button>
      <button class="quiet" onClick=${() => act("POST", ["compact"], {},
        "The conversation will be summed up.")}>Compact</button>`}
    <label>Mode <select value=${agent.mode ?? ""} onChange=${typed((mode) =>
      act("POST", ["mode"], { mode }, "The mode was changed."))}>
      ${[...new Set([agent.mode ?? "", ...MODES])].map((mode) => html`<option key=${mode}
        value=${mode}>${visible(mode) || "unknown"}</option>`)}</select></label>
    <${ModelForm} model=${agent.model ?? ""}
      set=${(/** @type {string} */ model) => act("POST", ["model"], { model }, "The model was changed.")} />
    ${!isLead && html`<span class="ends"><button class="no" onClick=${leave}>${
      sure === "leave" ? "Click again to ask it to leave" : "Ask to leave"}</button>
      <button class="no" onClick=${stop}>${
      sure === "stop" ? "Click again to stop it at once" : "Stop"}</button></span>`}
    <p class="said" role="status">${said}</p>
  </div></details>`;
}

/** @param {{model: string, set: (model: string) => void}} props */
function ModelForm({ model, set }) {
  const [name, setName] = useState(model);
  useEffect(() => setName(model), [model]);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (name.trim() !== "") set(name.trim());
  };
  return html`<form class="inline" onSubmit=${submit}><label>Model
    <input value=${name} maxlength="200"
      onInput=${typed(setName)} /></label>
    ${name !== model && html`<button class="quiet">Change</button>`}</form>`;
}
