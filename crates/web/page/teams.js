// The list of all teams below the root: running, stopped and archived.

import { html, useEffect } from "./vendor/preact-htm.js";
import { link } from "./route.js";
import { use } from "./signal.js";
import { readTeams, teams, teamsError } from "./store.js";
import { visible } from "./text.js";
import { counted, dollars } from "./words.js";

const STATES = /** @type {const} */ ([
  ["running", "Running"],
  ["unknown", "Led by another client"],
  ["stopped", "Stopped"],
  ["archived", "Archived"],
]);

export function Teams() {
  const [all, error] = [use(teams), use(teamsError)];
  useEffect(() => {
    void readTeams();
    addEventListener("focus", readTeams);
    return () => removeEventListener("focus", readTeams);
  }, []);
  return html`<div class="page">
    <h1>Teams <button class="quiet" onClick=${readTeams}>Refresh</button></h1>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${all?.length === 0 && html`<p class="empty">No team yet. Start one with <code>pitcrew</code>.</p>`}
    ${STATES.map(([state, title]) => html`<${Group} key=${state} title=${title}
      list=${(all ?? []).filter((team) => team.state === state)} />`)}
  </div>`;
}

/** @param {{title: string, list: TeamSummary[]}} props */
function Group({ title, list }) {
  if (list.length === 0) return null;
  return html`<section aria-label=${title}><h2 class="plain">${title}</h2>
    <ul class="teams">${list.map((team) => html`<li key=${team.archive ?? team.name}>
      <a href=${link(team.archive ?? team.name)}>
        <b>${visible(team.name)}</b>
        <span class="about">${visible(team.description ?? "")}</span>
        <span class="note">${facts(team)}</span>
      </a></li>`)}</ul></section>`;
}

/** @param {TeamSummary} team */
function facts(team) {
  const { open = 0, done = 0 } = team.tasks ?? {};
  if (team.problem) return visible(team.problem);
  const parts = [counted(team.members?.length ?? 0, "member")];
  if (open + done > 0) parts.push(`${done} of ${counted(open + done, "task")} completed`);
  if (team.cost_usd != null) parts.push(dollars(team.cost_usd));
  const [at, word] = team.archived_at_ms ? [team.archived_at_ms, "ended "] : [team.created_at_ms, ""];
  if (at) parts.push(word + new Date(at).toLocaleString());
  return parts.join(" · ");
}
