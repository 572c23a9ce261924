// One member: its state, its controls and its conversation.

import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { call, get, inWords, ofTeam } from "./api.js";
import { Badges, colorClass, needs, numbers } from "./cards.js";
import { recipient } from "./compose.js";
import { Text } from "./long.js";
import { link } from "./route.js";
import { useMay } from "./session.js";
import { typed, use } from "./signal.js";
import { oneLine, visible } from "./text.js";
import { brief, now } from "./words.js";

const MODES = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];

/** The number of parts of a conversation that are shown at once. */
const PARTS_MOST = 150;

/** @param {{store: Store, name: string}} props */
export function Member({ store, name }) {
  // Each entry of a replay can be a part of the conversation.
  const _drawnAgain = use(store.log.version);
  const { team, questions } = use(store.host);
  const isOver = use(store.isArchived);
  const mayControl = useMay("everything") && !isOver;
  const agent = team.agents.find((agent) => agent.name === name);
  if (!agent) {
    return html`<div class="page"><p class="empty">No agent has the name ${visible(name)}.
      <a href=${link(store.name)}>All agents</a></p></div>`;
  }
  return html`<div class=${`page member ${colorClass(agent)}`}>
    <h1>${visible(name)} <small>${needs(agent, questions) || now(agent)}</small></h1>
    <${Badges} agent=${agent} />
    ${store.isReplay
      ? html`<p class="note">${numbers(agent)}</p>
        <${Parts} key=${name} parts=${store.parts(name)} />`
      : html`<p class="note">${numbers(agent)} · <a
          href=${link(store.name, "review", name)}>changes</a></p>
        ${mayControl && html`<${Controls} team=${store.name} agent=${agent}
          isLead=${name === team.lead} />`}
        <${Conversation} key=${name} store=${store} name=${name} turns=${agent.turns} />`}
  </div>`;
}

/** @param {{team: string, agent: Agent, isLead: boolean}} props */
function Controls({ team, agent, isLead }) {
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
  const leave = twice("leave", () => void act("DELETE", [], {}, "It was asked to shut down."));
  const stop = twice("stop", () => void act("POST", ["stop"], {}, "It was stopped."));
  return html`<div class="controls" role="group" aria-label="Controls">
    <button class="quiet" onClick=${() => recipient(agent.name)}>Message</button>
    <button class="quiet" onClick=${() => act("POST", ["interrupt"], {}, "Interrupted.")}>
      Interrupt</button>
    <button class="quiet" onClick=${() => act("POST", ["compact"], {},
      "The conversation will be summed up.")}>Compact</button>
    <label>Mode <select value=${agent.mode ?? ""} onChange=${typed((mode) =>
      act("POST", ["mode"], { mode }, "The mode was changed."))}>
      ${[...new Set([agent.mode ?? "", ...MODES])].map((mode) => html`<option key=${mode}
        value=${mode}>${visible(mode) || "unknown"}</option>`)}</select></label>
    <${ModelForm} model=${agent.model ?? ""}
      set=${(/** @type {string} */ model) => act("POST", ["model"], { model }, "The model was changed.")} />
    ${!isLead && html`<button class="no" onClick=${leave}>${
      sure === "leave" ? "Click again to ask it to leave" : "Ask to leave"}</button>
      <button class="no" onClick=${stop}>${
      sure === "stop" ? "Click again to stop it at once" : "Stop"}</button>`}
    <p class="said" role="status">${said}</p>
  </div>`;
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

/** @param {{store: Store, name: string, turns: number}} props */
function Conversation({ store, name, turns }) {
  const [parts, setParts] = useState(/** @type {Part[] | null} */ (null));
  const [error, setError] = useState("");
  useEffect(() => {
    let isOver = false;
    read(ofTeam(store.name, "members", name, "conversation")).then(
      (parts) => isOver || setParts(parts),
      (failure) => isOver || setError(inWords(failure)),
    );
    return () => {
      isOver = true;
    };
  }, [name, turns]);
  const writing = use(store.host).writing[name];
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!parts) return html`<p class="loading">Loading…</p>`;
  return html`<${Parts} parts=${parts} writing=${writing} />`;
}

/** @param {{parts: Part[], writing?: string}} props */
function Parts({ parts, writing }) {
  const [most, setMost] = useState(PARTS_MOST);
  const shown = parts.slice(-most);
  return html`<section class="conversation" aria-label="Conversation">
    ${parts.length > shown.length && html`<button class="quiet" onClick=${() =>
      setMost(most + PARTS_MOST)}>Show earlier parts (${parts.length - shown.length})</button>`}
    ${parts.length === 0 && html`<p class="empty">The conversation is empty.</p>`}
    ${shown.map((part, n) => html`<${PartView} key=${parts.length - shown.length + n} part=${part} />`)}
    ${writing && html`<div class="part text writing"><pre class="text">${visible(writing)}</pre></div>`}
  </section>`;
}

/**
 * Reads all pages of a conversation.
 * @param {string} path
 */
async function read(path) {
  /** @type {Part[]} */
  const parts = [];
  for (let total = 1; parts.length < total; ) {
    const page = await get(`${path}?from=${parts.length}`);
    if (!page.entries?.length) break;
    parts.push(...page.entries);
    total = page.total ?? 0;
  }
  return parts;
}

/** @param {{part: Part}} props */
function PartView({ part }) {
  if (part.part === "call") return html`<${CallView} call=${part} />`;
  const title = titleOf(part);
  const text = part.text ?? part.reason ?? "";
  const isAside = ["thinking", "notice", "summary"].includes(part.part) || part.frame != null;
  if (isAside) {
    return html`<details class="part"><summary>${title}: ${oneLine(text, 120)}</summary>
      <${Text} text=${text} /></details>`;
  }
  return html`<div class=${`part ${visible(part.part)}`}>
    ${title && html`<p class="note">${title}</p>`}<${Text} text=${text} /></div>`;
}

/** @param {Part} part */
function titleOf(part) {
  if (part.part === "mail") {
    const frame = part.frame ? `, ${part.frame.replaceAll("_", " ")}` : "";
    return visible(`from ${part.from ?? "?"}${frame}`);
  }
  if (part.part === "ended") return visible(`ended: ${part.status ?? ""}`);
  return part.part === "text" || part.part === "event" ? "" : visible(part.part);
}

/** @param {{call: Part}} props */
function CallView({ call }) {
  const { result, permission } = call;
  const state = result ? (result.is_error ? "failed" : "done") : "running";
  const asked = typeof permission === "string" ? permission : permission ? "denied" : "";
  return html`<details class=${`part call ${state}`}><summary>
      <code>${brief(visible(call.tool ?? "?"), call.input)}</code>
      <span class="note">${[state, visible(asked)].filter(Boolean).join(", ")}</span></summary>
    <${Text} text=${JSON.stringify(call.input, null, 2)} />
    ${result && html`<p class="note">Result</p><${Text} text=${result.text} />`}
  </details>`;
}
