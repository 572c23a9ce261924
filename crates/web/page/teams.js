// The list of all teams below the root: running, stopped and archived.

import { html, useEffect } from "./vendor/preact-htm.js";
import { link } from "./route.js";
import { use } from "./signal.js";
import { followTeams, teams, teamsError } from "./store.js";
import { visible } from "./text.js";
import { counted, dateTime, dollars } from "./words.js";

const STATES = /** @type {const} */ ([
  ["running", "Running"],
  ["unknown", "Led by another client"],
  ["stopped", "Stopped"],
  ["archived", "Archived"],
]);

export function Teams() {
  const [all, error] = [use(teams), use(teamsError)];
  useEffect(followTeams, []);
  return html`<div class="page">
    <h1>Teams</h1>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${all?.length === 0 && html`<p class="empty">No team yet. Start one with <code>pitcrew</code>.</p>`}
    ${STATES.map(([state, title]) => html`<${Group} key=${state} title=${title}
      list=${inOrder((all ?? []).filter((team) => team.state === state))} />`)}
  </div>`;
}

/**
 * Returns the teams that wait for a person before the others.
 * @param {TeamSummary[]} list
 */
const inOrder = (list) => [...list].sort((a, b) => Number(!a.waiting) - Number(!b.waiting));

/** @param {{title: string, list: TeamSummary[]}} props */
function Group({ title, list }) {
  if (list.length === 0) return null;
  return html`<section aria-label=${title}><h2 class="plain">${title}</h2>
    <ul class="teams">${list.map((team) => html`<li key=${team.archive ?? team.name}>
      <a href=${link(team.archive ?? team.name)}>
        <b>${visible(team.name)}</b>
        <span class="about">${visible(team.description ?? "")}</span>
        <span class="note">${waits(team)}${facts(team)}</span>
      </a></li>`)}</ul></section>`;
}

/** @param {TeamSummary} team */
function waits({ waiting = 0 }) {
  if (waiting === 0) return null;
  return html`<b class="waits">${waiting} ${waiting === 1 ? "waits" : "wait"} for you</b> · `;
}

/** @param {TeamSummary} team */
function facts(team) {
  const { open = 0, done = 0 } = team.tasks ?? {};
  if (team.problem) return visible(team.problem);
  const parts = [counted(team.members?.length ?? 0, "member")];
  if (open + done > 0) parts.push(`${done} of ${counted(open + done, "task")} completed`);
  if (team.cost_usd != null) parts.push(dollars(team.cost_usd));
  const at = team.archived_at_ms ?? team.created_at_ms;
  const word = team.archived_at_ms ? "archived " : "";
  if (at) parts.push(word + dateTime(at));
  return parts.join(" · ");
}
