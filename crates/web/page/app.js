// The page: the header, the navigation, and the view that the address names.

import { html, render, useEffect, useState } from "./vendor/preact-htm.js";
import { UNPAIRED, get, isUnpaired, ofTeam } from "./api.js";
import { Banner } from "./banner.js";
import { Cards, totals } from "./cards.js";
import { Compose, Unsent } from "./compose.js";
import { Frame } from "./frame.js";
import { Lazy, loadAhead } from "./lazy.js";
import { useLooks } from "./look.js";
import { allowed, askToNotify, news, watch } from "./notify.js";
import { OpenPlans, Plans } from "./plans.js";
import { Questions } from "./questions.js";
import { REPLAY, VIEWS, link, route } from "./route.js";
import { Colours } from "./settings.js";
import { readScope, scope, useMay } from "./session.js";
import { TeamStore } from "./store.js";
import { Signal, use } from "./signal.js";
import { Teams } from "./teams.js";
import { oneLine, visible } from "./text.js";
import { Timeline } from "./timeline.js";
import { Warnings } from "./warnings.js";
import { dateTime, endInWords } from "./words.js";

/** How often a team was opened anew, because a later run has its name. */
const reopened = new Signal(0);

function App() {
  const { team } = use(route);
  const count = use(reopened);
  const text = use(news);
  return html`<div class="app">
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    ${use(isUnpaired) ? html`<${Unpaired} />` : shown(team, count)}
    <div class="hidden" role="status" aria-live="polite">${text}</div>
  </div>`;
}

/** @param {string} team @param {number} count */
function shown(team, count) {
  if (team === "") return html`<${Overview} />`;
  if (!team.startsWith(REPLAY)) {
    return html`<${Team} key=${`${team} ${count}`} name=${team} />`;
  }
  const name = team.slice(REPLAY.length);
  return html`<${Lazy} key=${team} load=${replay} title=${`Replay of ${visible(name)}`}
    home=${link()} name=${team} back=${link(name)} read=${() => get(ofTeam(name, "replay"))}
    team=${() => get(ofTeam(name))} />`;
}

const replay = async () => (await import("./replay.js")).Replay;
const review = async () => (await import("./review.js")).Review;
const summary = async () => (await import("./summary.js")).Summary;
const tasks = async () => (await import("./tasks.js")).Tasks;
const member = async () => {
  const [{ Member }, { Controls }] = [await import("./member.js"), await import("./controls.js")];
  return (/** @type {any} */ props) => html`<${Member} controls=${Controls} ...${props} />`;
};

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function openAnew() {
  reopened.value += 1;
}

function Unpaired() {
  return html`<${Frame} title="Not paired"><p class="error" role="alert">${UNPAIRED}</p><//>`;
}

function Overview() {
  return html`<header class="top"><div class="line plain"><b class="name">pitcrew</b><${Settings} />
    </div></header>
    <main id="main" tabindex="-1"><${Teams} /></main>`;
}

function Settings() {
  const permission = use(allowed);
  return html`<span class="settings">
    ${permission === "default" && html`<button class="quiet"
      onClick=${askToNotify}>Notify me</button>`}
    <${Colours} />
  </span>`;
}

/** @param {{name: string}} props */
function Team({ name }) {
  const [store, setStore] = useState(/** @type {TeamStore | null} */ (null));
  useEffect(() => {
    const opened = new TeamStore(name);
    const unwatch = watch(opened);
    setStore(opened);
    return () => {
      unwatch();
      opened.close();
    };
  }, [name]);
  if (!store) return html`<main id="main" tabindex="-1"></main>`;
  return html`<${Opened} store=${store} />`;
}

/** @param {{store: TeamStore}} props */
function Opened({ store }) {
  const { view } = use(route);
  const [connection, isAgain, error] = [use(store.link), use(store.isAgain), use(store.error)];
  const isMissing = connection === "missing";
  const isFinal = use(store.isOfArchive);
  const mayReturn = isMissing || (connection === "ended" && !isFinal);
  useLooks(mayReturn && !isAgain, () => store.readState());
  useEffect(() => {
    if (isAgain && isMissing) openAnew();
  }, [isAgain]);
  // The button that opened this run is gone, and the keyboard goes on from here.
  useEffect(() => {
    const isLost = document.activeElement === document.body;
    if (reopened.value > 0 && isLost) document.getElementById("main")?.focus();
  }, []);
  if (isMissing) {
    return html`<${Frame} title=${`No team ${visible(store.name)}`} back=${link()}><p class="error"
      role="alert">${error}</p><//>`;
  }
  return html`<${Header} store=${store} />
    <main id="main" tabindex="-1" class=${view === "team" ? "beside" : ""}>
      <${View} store=${store} /></main>
    <${Foot} store=${store} />`;
}

/** @param {{store: TeamStore}} props */
function Foot({ store }) {
  const [mayWrite, isWatching] = [useMay("answer"), use(scope) === "watch"];
  if (use(store.isArchived)) return html`<${Unsent} team=${store.name} />`;
  if (isWatching) {
    return html`<footer class="compose note">This device only watches: it cannot answer or write.
    </footer>`;
  }
  return mayWrite && html`<${Compose} store=${store} />`;
}

/** @param {{store: TeamStore}} props */
function View({ store }) {
  const { view, name } = use(route);
  if (view === "tasks") {
    return html`<${Lazy} load=${tasks} title="Tasks" store=${store} chosen=${name} />`;
  }
  if (view === "timeline") {
    return html`<h1 class="hidden">Timeline</h1><${Timeline} store=${store} />`;
  }
  if (view === "plans") return html`<${Plans} store=${store} />`;
  if (view === "review") {
    return html`<${Lazy} load=${review} title="Review" store=${store} chosen=${name} />`;
  }
  if (view === "member") {
    return html`<${Lazy} load=${member} title=${visible(name)} store=${store} name=${name} />`;
  }
  return html`<div class="column"><${TeamView} store=${store} /></div>
    <${Timeline} store=${store} isNarrow=${true} />`;
}

/** @param {{store: TeamStore}} props */
function TeamView({ store }) {
  const { team, questions, outcome } = use(store.host);
  const isOver = use(store.log.end) !== null || team.session || outcome;
  const plans = use(store.plans).filter((plan) => plan.state === "open");
  return html`<h1 class="hidden">Team ${nameOf(store)}</h1>
    ${questions.length > 0
      ? html`<${Questions} team=${store.name} questions=${questions} plans=${plans} />`
      : html`<section class="waiting" aria-label="Plans that wait"><${OpenPlans}
          store=${store} /></section>`}
    <${Banner} store=${store} />
    ${isOver && html`<${Lazy} load=${summary} store=${store} />`}
    <${Cards} store=${store} />`;
}

/**
 * Returns the name of the team. The address of an archived team has the id of its archive.
 * @param {TeamStore} store
 */
const nameOf = (store) => visible(store.host.value.team.team || store.name);

/** @param {{store: TeamStore}} props */
function Header({ store }) {
  const { view } = use(route);
  const [error, connection, isAgain] = [use(store.error), use(store.link), use(store.isAgain)];
  const { team, questions } = use(store.host);
  const open = use(store.plans).filter((plan) => plan.state === "open");
  const waiting = questions.length + open.length;
  const isKnown = team.agents.length > 0;
  return html`<header class="top">
    <div class="line">
      <a class="brand" href=${link()}><span aria-hidden="true">‹</span> Teams</a>
      <b class="name">${nameOf(store)}</b>
      <${TeamState} store=${store} />
      <span class="note totals">${isKnown && totals(team, questions, open)}</span>
      <${Settings} />
    </div>
    <nav aria-label="Views">${VIEWS.map(([id, title]) => html`<a key=${id}
      href=${link(store.name, id === "team" ? "" : id)}
      aria-current=${id === view ? "page" : undefined}>${title}${
        id === "team" && waiting > 0 && html` <span class="count">${waiting}<span
          class="hidden"> waiting</span></span>`}</a>`)}<a
      href=${link(REPLAY + store.id)}>Replay</a></nav>
    <p class="said" role="status">${connection === "silent" &&
      "The run does not answer; it may be suspended."}${isAgain && html`A new run of ${
      nameOf(store)} has begun. <button class="quiet" onClick=${openAnew}>Open</button>`}</p>
    <${Warnings} store=${store} />
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${team.cleanup?.failed && html`<p class="error" role="alert">The team was not cleaned up: ${
      oneLine(team.cleanup.failed, 500)}</p>`}
  </header>`;
}

/** @type {Record<Link, string>} */
const LINKS = {
  connecting: "connecting…",
  live: "running",
  silent: "does not answer",
  gone: "stopped",
  ended: "stopped",
  lost: "connection lost: reload the page",
  missing: "",
};

/** @param {{store: TeamStore}} props */
function TeamState({ store }) {
  const { team, outcome, running_in_words: led } = use(store.host);
  const [link, isArchived] = [use(store.link), use(store.isArchived)];
  const endedAt = use(store.endedAt);
  const known = isArchived ? "archived" : outcome ? endInWords(outcome.end)
    : (link === "live" && led) || LINKS[link];
  const words = team.cleanup === "cleaned_up" ? "cleaned_up" : known;
  return html`<span class=${`state s-${link}`}>${visible(words)}${
    isArchived && endedAt && ` ${dateTime(endedAt)}`}</span>`;
}

void readScope();

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.textContent = "";
render(html`<${App} />`, root);
// The browser paints the page first.
requestAnimationFrame(() => loadAhead([tasks, member, summary, review, replay]));
