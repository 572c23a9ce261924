// The view of a replay: the team as it was at a moment, and the player that chooses the moment.
// Nothing here changes a team.

import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { inWords } from "./api.js";
import { Banner } from "./banner.js";
import { Cards, totals } from "./cards.js";
import { Frame, Unavailable } from "./frame.js";
import { useLooks } from "./look.js";
import { Member } from "./member.js";
import { Player } from "./player.js";
import { ReplayStore } from "./replaying.js";
import { REPLAY, VIEWS, link, route } from "./route.js";
import { Colours } from "./settings.js";
import { use } from "./signal.js";
import { Summary } from "./summary.js";
import { Tasks } from "./tasks.js";
import { visible } from "./text.js";
import { Timeline } from "./timeline.js";
import { clock, counted } from "./words.js";

const SHOWN = ["team", "tasks", "timeline"];

/**
 * @param {{name: string, read: () => Promise<Recorded>, back?: string,
 *   team?: () => Promise<{state: string}>, follow?: (store: ReplayStore) => () => void}} props `team`
 *   reads the state of the team, and `follow` adds the events that come later
 */
export function Replay({ name, read, back, team, follow }) {
  const [store, setStore] = useState(/** @type {ReplayStore | null} */ (null));
  const [error, setError] = useState("");
  const { at } = use(route);
  const title = `Replay of ${visible(name.replace(REPLAY, ""))}`;
  async function load() {
    try {
      const replay = await read();
      setStore((opened) => opened ?? new ReplayStore(name, replay, route.value.at));
    } catch (failure) {
      setError(inWords(failure));
    }
  }
  useEffect(() => void load(), []);
  useLooks(!store && error !== "", load);
  useEffect(() => {
    const unfollow = store?.isLive.value && follow ? follow(store) : () => {};
    return () => {
      unfollow();
      store?.close();
    };
  }, [store]);
  useEffect(() => {
    if (store && at !== null) store.seek(at);
  }, [store, at]);
  if (!store) {
    return html`<${Frame} title=${title} back=${back && link()}>${error
      ? html`<${Unavailable} text=${error} again=${load} />`
      : html`<p class="loading">Loading…</p>`}<//>`;
  }
  return html`<${Header} store=${store} back=${back} team=${team} />
    <${Main} store=${store} />
    <${Player} store=${store} />`;
}

/** A moment that is nearer to a run than this belongs to it, in milliseconds. */
const NEAR_MS = 1000;

/**
 * Says that a team runs on after its replay was read.
 * @param {{back?: string, team: () => Promise<{state: string}>}} props
 */
function RunsOn({ back, team }) {
  const [readAt] = useState(Date.now);
  const [isRunning, setIsRunning] = useState(false);
  useEffect(() => {
    let isOver = false;
    team().then(
      ({ state }) => isOver || setIsRunning(state === "running"),
      // A host that does not answer runs too, but nothing is known of it.
      () => {},
    );
    return () => {
      isOver = true;
    };
  }, []);
  return isRunning && html`<p class="note runs-on">As of ${clock(readAt)}; it still runs. <a
    href=${back}>Live page</a></p>`;
}

/** @param {{store: ReplayStore, back?: string, team?: () => Promise<{state: string}>}} props */
function Header({ store, back, team: ofTeam }) {
  const { view } = use(route);
  const { team, questions } = use(store.host);
  const [isLive, hasGrown, error] = [use(store.isLive), use(store.hasGrown), use(store.error)];
  const { isClock, isEmpty, isFinished } = store.recording;
  // A file that has just been opened may not grow any more.
  const isGrowing = isLive && (isClock || (hasGrown && !isFinished));
  const { left_out, masked, unread, name } = store.replay;
  const notes = [...unread];
  if (left_out > 0) notes.unshift(`Not in this replay: ${counted(left_out, "older event")}`);
  const { from, to } = store.recording;
  if (store.at !== null && !isEmpty && (store.at < from - NEAR_MS || store.at > to + NEAR_MS)) {
    notes.unshift("The moment of this link is not in this run. A later run can have its name.");
  }
  if (masked) notes.push(`Masked in this file: ${masked}`);
  const cleanup = team.cleanup?.failed;
  const state = team.cleanup === "cleaned_up" ? "cleaned_up"
    : isGrowing ? "live" : "replay";
  return html`<header class="top">
    <div class="line">
      ${back && html`<a class="brand" href=${back}><span aria-hidden="true">‹</span> Back</a>`}
      <b class="name">${visible(team.team || name)}</b>
      <span class=${`state s-${state}`}>${state}</span>
      <span class="note totals">${!isEmpty && totals(team, questions, [])}</span>
      <span class="settings"><${Colours} /></span>
    </div>
    <nav aria-label="Views">${VIEWS.filter(([id]) => SHOWN.includes(id)).map(
      ([id, title]) => html`<a key=${id} href=${link(store.name, id === "team" ? "" : id)}
        aria-current=${id === view ? "page" : undefined}>${title}</a>`)}</nav>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${cleanup && html`<p class="error" role="alert">The team was not cleaned up: ${
      visible(cleanup)}</p>`}
    ${ofTeam && html`<${RunsOn} back=${back} team=${ofTeam} />`}
    ${notes.map((note) => html`<p class="note" key=${note}>${visible(note)}</p>`)}
  </header>`;
}

/** @param {{store: ReplayStore}} props */
function Main({ store }) {
  const { view } = use(route);
  return html`<main id="main" tabindex="-1" class=${view === "team" ? "beside" : ""}>
    <${View} store=${store} /></main>`;
}

/** @param {{store: ReplayStore}} props */
function View({ store }) {
  const { view, name } = use(route);
  const _drawnAgain = use(store.log.version);
  const isLive = use(store.isLive);
  if (store.recording.isEmpty) {
    return html`<div class="page"><h1>Replay of ${visible(store.replay.name)}</h1>
      <p class="empty">${isLive ? "It waits for the first line." : "Nothing was recorded."}</p></div>`;
  }
  if (view === "tasks") return html`<${Tasks} store=${store} chosen=${name} />`;
  if (view === "timeline") {
    return html`<h1 class="hidden">Timeline</h1><${Timeline} store=${store} />`;
  }
  if (view === "member") return html`<${Member} store=${store} name=${name} />`;
  return html`<div class="column"><h1 class="hidden">Replay of ${visible(store.replay.name)}</h1>
      <${Banner} store=${store} />
      <${Summary} store=${store} />
      <${Cards} store=${store} /></div>
    <${Timeline} store=${store} isNarrow=${true} />`;
}
