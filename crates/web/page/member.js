// One member: its state and its conversation.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { get, inWords, ofTeam } from "./api.js";
import { Badges, colorClass, needs } from "./cards.js";
import { observed } from "./list.js";
import { useLooks } from "./look.js";
import { Text } from "./long.js";
import { link } from "./route.js";
import { use } from "./signal.js";
import { oneLine, visible } from "./text.js";
import { brief, frameInWords, now, numbers } from "./words.js";

/** The number of parts of a conversation that are shown at once. */
const PARTS_MOST = 150;

/** A conversation whose end is nearer than this is followed, in pixels. */
const NEAR_END = 40;

/**
 * @param {{store: Store, name: string, controls?: any}} props `controls` is for a team that runs
 */
export function Member({ store, name, controls }) {
  // Each entry of a replay can be a part of the conversation.
  const _drawnAgain = use(store.log.version);
  const { team, questions } = use(store.host);
  const plans = use(store.plans);
  const agent = team.agents.find((agent) => agent.name === name);
  if (!agent) {
    return html`<div class="page"><h1>${visible(name)}</h1><p class="empty">No agent has the name ${visible(name)}.${
      " "}<a href=${link(store.name)}>All agents</a></p></div>`;
  }
  return html`<div class=${`page member ${colorClass(agent)}`}>
    <header class="over">
      <h1>${visible(name)} <small>${needs(agent, questions, plans) || now(agent)}</small></h1>
      ${controls && html`<${controls} store=${store} agent=${agent} />`}
    </header>
    <${Badges} agent=${agent} />
    ${store.isReplay
      ? html`<p class="note">${numbers(agent)}</p>
        <${Parts} key=${name} parts=${store.parts(name)} />`
      : html`<p class="note">${numbers(agent)} · <a
          href=${link(store.name, "review", name)}>changes</a></p>
        <${Conversation} key=${name} store=${store} name=${name}
          version=${`${agent.turns} ${agent.status}`} />`}
  </div>`;
}

/** @param {{store: LiveStore, name: string, version: string}} props */
function Conversation({ store, name, version }) {
  const [parts, setParts] = useState(/** @type {Part[] | null} */ (null));
  const [error, setError] = useState("");
  const [tries, setTries] = useState(0);
  useEffect(() => {
    let isOver = false;
    read(ofTeam(store.id, "members", name, "conversation")).then(
      (parts) => {
        if (isOver) return;
        setParts(parts);
        setError("");
      },
      (failure) => isOver || setError(inWords(failure)),
    );
    return () => {
      isOver = true;
    };
  }, [name, version, tries]);
  useLooks(error !== "", () => setTries(tries + 1));
  const writing = use(store.host).writing.get(name);
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!parts) return html`<p class="loading">Loading…</p>`;
  return html`<${Parts} parts=${parts} writing=${writing} />`;
}

/** @param {{parts: Part[], writing?: string}} props */
function Parts({ parts, writing }) {
  const { box, isAway, leave, toEnd, clicked } = useEnd();
  const from = useRef(0);
  const latest = Math.max(0, parts.length - PARTS_MOST);
  // The first part stays while a person reads older ones.
  from.current = isAway ? Math.min(from.current, latest) : latest;
  const first = from.current;
  function showEarlier() {
    from.current = Math.max(0, first - PARTS_MOST);
    leave();
  }
  return html`<section class="conversation" aria-label="Conversation" ref=${box}
    onClickCapture=${clicked}>
    ${first > 0 && html`<button class="quiet"
      onClick=${showEarlier}>Show earlier parts (${first})</button>`}
    ${parts.length === 0 && html`<p class="empty">The conversation is empty.</p>`}
    ${parts.slice(first).map((part, n) => html`<${PartView} key=${first + n} part=${part} />`)}
    ${writing && html`<div class="part text writing"><pre class="text">${visible(writing)}</pre></div>`}
    ${isAway && html`<button class="to-end" onClick=${toEnd}>To the end</button>`}
  </section>`;
}

/**
 * Keeps the end of a conversation on the screen until a person scrolls up or opens a part. `leave` is
 * for older parts that are shown next: the parts below them keep their places.
 */
function useEnd() {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  /** The distance from the end to keep, in pixels. `null` keeps the distance from the beginning. */
  const kept = useRef(/** @type {number | null} */ (0));
  const top = useRef(0);
  const [isAway, setIsAway] = useState(false);
  const [, draw] = useState({});
  const outer = () => box.current?.closest("main");
  function stay() {
    const main = outer();
    if (!main || kept.current === null) return;
    main.scrollTop = main.scrollHeight - kept.current;
    top.current = main.scrollTop;
    if (kept.current > 0) kept.current = null;
  }
  function look() {
    const main = outer();
    if (!main) return;
    const isUp = main.scrollTop < top.current - 1;
    top.current = main.scrollTop;
    const rest = main.scrollHeight - main.scrollTop - main.clientHeight;
    // The parts get their heights when they come on the screen, so the end can move away by itself.
    if (rest > NEAR_END && kept.current === 0 && !isUp) return stay();
    kept.current = rest <= NEAR_END ? 0 : null;
    setIsAway(kept.current === null);
  }
  function toEnd() {
    kept.current = 0;
    setIsAway(false);
  }
  function leave() {
    const main = outer();
    if (main) kept.current = main.scrollHeight - main.scrollTop;
    setIsAway(true);
    draw({});
  }
  function clicked() {
    if (kept.current !== 0) return;
    kept.current = null;
    requestAnimationFrame(look);
  }
  useLayoutEffect(stay);
  useEffect(() => {
    const main = outer();
    main?.addEventListener("scroll", look, { passive: true });
    const unobserve = observed(box.current, look);
    return () => {
      main?.removeEventListener("scroll", look);
      unobserve?.();
      // The next view begins at its top.
      if (main) main.scrollTop = 0;
    };
  }, []);
  return { box, isAway, leave, toEnd, clicked };
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
  if (part.frame) return html`<${Frame} part=${part} frame=${part.frame} />`;
  const title = titleOf(part);
  const text = part.text ?? part.reason ?? "";
  const isAside = ["thinking", "notice", "summary"].includes(part.part);
  if (isAside) {
    return html`<details class="part"><summary>${title}: ${oneLine(text, 120)}</summary>
      <${Text} text=${text} /></details>`;
  }
  return html`<div class=${`part ${visible(part.part)}`}>
    ${title && html`<p class="note">${title}</p>`}<${Text} text=${text} /></div>`;
}

/**
 * A frame is JSON for programs. Words say what it does, and a click shows the JSON.
 * @param {{part: Part, frame: string}} props
 */
function Frame({ part, frame }) {
  const fields = parsed(part.text ?? "");
  const said = part.summary || detailOf(fields);
  const words = `${part.from ?? "?"} ${frameInWords(frame)}${said && `: ${said}`}`;
  return html`<details class="part"><summary>${oneLine(words, 200)}</summary>
    <${LongTexts} texts=${longTexts(fields)} /><${Text} text=${part.text} /></details>`;
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Returns the text in a frame that a person wants to read. Returns an empty one if there is none.
 * @param {any} frame
 */
function detailOf(frame) {
  const verdict = { true: "approved", false: "sent back" }[String(frame?.approved)];
  const detail = ["feedback", "subject", "summary", "reason", "message"]
    .map((name) => frame?.[name])
    .find((it) => typeof it === "string" && it !== "");
  return [verdict, detail].filter(Boolean).join(", ");
}

/**
 * Returns the fields with texts of several lines, such as a plan. JSON has each of them on one line.
 * @param {any} fields
 * @returns {[string, string][]}
 */
function longTexts(fields) {
  if (fields === null || typeof fields !== "object") return [];
  const isLong = (/** @type {unknown} */ it) => typeof it === "string" && it.includes("\n");
  return /** @type {[string, any][]} */ (Object.entries(fields)).filter(([, it]) => isLong(it));
}

/** @param {{texts: [string, string][]}} props */
function LongTexts({ texts }) {
  return texts.map(([name, text]) => html`<p class="note" key=${name}>${visible(name)}</p>
    <${Text} text=${text} />`);
}

/** @param {Part} part */
function titleOf(part) {
  if (part.part === "mail") return visible(`from ${part.from ?? "?"}`);
  if (part.part === "ended") return visible(`ended: ${part.status ?? ""}`);
  return part.part === "text" || part.part === "event" ? "" : visible(part.part);
}

/** @param {{call: Part}} props */
function CallView({ call }) {
  const { result, permission } = call;
  const state = result ? (result.is_error ? "failed" : "done") : "running";
  const long = longTexts(call.input);
  // The texts of several lines are below the JSON, so they are left out of it.
  const rest = (/** @type {string} */ name, /** @type {unknown} */ it) =>
    (long.some(([of, text]) => of === name && text === it) ? undefined : it);
  const asked = typeof permission === "string" ? permission : permission ? "denied" : "";
  return html`<details class=${`part call ${state}`}><summary>
      <code>${brief(visible(call.tool ?? "?"), call.input)}</code>
      <span class="note">${[state, visible(asked)].filter(Boolean).join(", ")}</span></summary>
    <${Text} text=${JSON.stringify(call.input, rest, 2)} />
    <${LongTexts} texts=${long} />
    ${result && html`<p class="note">Result</p><${Text} text=${result.text} />`}
  </details>`;
}
