// The line in which a person writes to one agent or to all. Each draft has one key: if it is sent
// again after a lost answer, the server makes no second message.

import { html, useEffect, useLayoutEffect, useMemo, useState } from "./vendor/preact-htm.js";
import { RequestKey, call, inWords, ofTeam } from "./api.js";
import { OVER } from "./fold.js";
import { to } from "./recipient.js";
import { route } from "./route.js";
import { Signal, typed, use } from "./signal.js";
import { visible } from "./text.js";

const EVERYONE = "*";

/** How long the page says that a message was sent, in milliseconds. */
const SAID_MS = 6_000;

/**
 * The drafts by team. They stay while another team is shown, and after the end of a run.
 * @type {Map<string, Signal<string>>}
 */
const drafts = new Map();

/** @param {string} team */
function draftOf(team) {
  const draft = drafts.get(team) ?? new Signal("");
  drafts.set(team, draft);
  return draft;
}

/**
 * The draft for a team that reads no mail any more.
 * @param {{team: string}} props
 */
export function Unsent({ team }) {
  const draft = draftOf(team);
  const text = use(draft);
  if (text.trim() === "") return null;
  return html`<footer class="compose"><label class="draft">Not sent: nobody reads the mail of an
    archived team.<textarea readonly rows=${rowsOf(text)} value=${text} /></label>
    <button class="quiet" onClick=${() => { draft.value = ""; }}>Put away</button></footer>`;
}

/** @param {string} text */
const rowsOf = (text) => Math.min(6, text.split("\n").length);

/** @param {{store: LiveStore}} props */
export function Compose({ store }) {
  const { team, outcome } = use(store.host);
  const isRunning = use(store.link) === "live" && !outcome;
  const { view, name: shown } = use(route);
  const draft = draftOf(store.name);
  const text = use(draft);
  const [said, setSaid] = useState("");
  const [isSending, setIsSending] = useState(false);
  const key = useMemo(() => new RequestKey(), []);
  // After the end of a run, the mail is read when the team is resumed.
  const readers = team.agents.filter(
    (agent) => agent.role !== "subagent" && !(isRunning && OVER.includes(agent.status)),
  );
  const names = readers.map((it) => it.name);
  const known = [use(to), team.lead].find((name) => name === EVERYONE || names.includes(name ?? ""));
  const chosen = known ?? names[0] ?? EVERYONE;
  const options = useMemo(
    () => names.map((name) => html`<option key=${name} value=${name}>${visible(name)}</option>`),
    [names.join("\n")],
  );
  useLayoutEffect(() => {
    if (view !== "member") return undefined;
    // On the page of an agent, the draft goes to that agent. Elsewhere it goes where it went before.
    const before = to.value;
    to.value = shown;
    return () => {
      to.value = before;
    };
  }, [view, shown]);
  useEffect(() => {
    const gone = setTimeout(() => setSaid(""), SAID_MS);
    return () => clearTimeout(gone);
  }, [said]);
  async function send() {
    const content = text.trim();
    if (content === "" || isSending) return;
    setIsSending(true);
    const body = { to: chosen, content };
    try {
      await call("POST", ofTeam(store.name, "messages"), body, key.of(body));
      key.end();
      draft.value = "";
      setSaid(`Sent to ${chosen === EVERYONE ? "all" : visible(chosen)}.${
        store.isUnread ? " Nobody reads it before the team is resumed (`pitcrew resume`)." : ""}`);
      store.settle();
    } catch (error) {
      setSaid(`Not sent: ${inWords(error)}`);
    }
    setIsSending(false);
  }
  /** @param {KeyboardEvent} event */
  function pressed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send();
  }
  /** @param {Event} event */
  function submit(event) {
    event.preventDefault();
    void send();
  }
  return html`<form class="compose" aria-label="Message" onSubmit=${submit}>
    <label><span class="hidden">To</span>
      <select value=${chosen} onChange=${typed((name) => { to.value = name; })}>
        ${options}
        <option value=${EVERYONE}>all</option>
      </select></label>
    <label class="draft"><span class="hidden">Message</span>
      <textarea id="draft" rows=${rowsOf(text)} value=${text} placeholder="Message"
        onInput=${typed((it) => { draft.value = it; })} onKeyDown=${pressed} /></label>
    <button class="yes" aria-disabled=${isSending || text.trim() === ""}>Send</button>
    <p class="said" role="status">${said}</p>
  </form>`;
}
