// The summary of a session or a run: how it ended, its duration, its tokens and its cost.

import { html } from "./vendor/preact-htm.js";
import { use } from "./signal.js";
import { visible } from "./text.js";
import { dollars, duration, endInWords, short, shortModel, tokensOf } from "./words.js";

/** @param {{store: Store}} props */
export function Summary({ store }) {
  const { team, outcome } = use(store.host);
  const end = use(store.log.end);
  if (team.session) return html`<${OfSession} session=${team.session} />`;
  if (outcome) return html`<${OfRun} outcome=${outcome} />`;
  return end && html`<${OfLog} end=${end} agents=${team.agents.length} />`;
}

/** @param {{end: Entry, agents: number}} props */
function OfLog({ end, agents }) {
  /** @type {[string, string][]} */
  const facts = [["Agents", String(agents)]];
  if (end.tokens != null) facts.push(["Tokens", short(end.tokens)]);
  if (end.cost_usd != null) facts.push(["Cost", dollars(end.cost_usd)]);
  const outcome = end.text.replace(/^the run ends,? ?/, "");
  return html`<${Card} title="Session summary" outcome=${outcome}
    isError=${!/^(completed|shut down)/.test(outcome)} facts=${facts} text="" models=${[]} />`;
}

/** @param {{session: Session}} props */
function OfSession({ session }) {
  /** @type {[string, string][]} */
  const facts = [];
  if (session.duration_ms != null) facts.push(["Duration", duration(session.duration_ms)]);
  if (session.duration_api_ms != null) facts.push(["Model time", duration(session.duration_api_ms)]);
  if (session.turns != null) facts.push(["Turns", String(session.turns)]);
  if (session.cost_usd != null) facts.push(["Cost", dollars(session.cost_usd)]);
  const models = session.models ?? [];
  // "success" is the word of another client, and stays as in the terminal.
  const isOfClient = session.outcome === "success";
  const outcome = isOfClient ? session.outcome : endInWords({ kind: session.outcome });
  const all = models.reduce((sum, use) => sum + tokensOf(use.usage), 0);
  facts.push(models.length > 0 ? ["Tokens", short(all)]
    : ["Tokens of the lead", short(tokensOf(session.usage))]);
  return html`<${Card} title="Session summary" outcome=${outcome}
    isError=${session.is_error} facts=${facts} text=${session.result}
    models=${models.map((use) => ({ ...use, name: use.model }))} />`;
}

/** @param {{outcome: RunOutcome}} props */
function OfRun({ outcome }) {
  const { end, totals, agents = [] } = outcome;
  const cost = agents.reduce((sum, agent) => sum + (agent.cost_usd ?? 0), 0);
  const tokens = agents.reduce((sum, agent) => sum + tokensOf(agent.usage), 0);
  /** @type {[string, string][]} */
  const facts = [
    ["Duration", duration(totals?.ran_ms ?? 0)],
    ["Model time", duration(totals?.model_time_ms ?? 0)],
    ["Agents", String(agents.length)],
    ["Tokens", short(tokens)],
    ["Cost", tokens > 0 ? dollars(cost) : "none"],
  ];
  const models = Object.entries(totals?.models ?? {}).map(([name, use]) => ({
    ...use,
    name,
    cost_usd: use.is_unpriced ? null : use.cost_usd,
  }));
  return html`<${Card} title="Session summary" outcome=${endInWords(end)}
    isError=${!["success", "shut_down"].includes(end.kind)} facts=${facts}
    text=${end.text ?? end.reason ?? ""} models=${models} />`;
}

/**
 * @param {{title: string, outcome: string, isError: boolean, facts: [string, string][],
 *   text: string, models: {name: string, usage?: Usage, cost_usd?: number | null}[]}} props
 */
function Card({ title, outcome, isError, facts, text, models }) {
  return html`<section class=${`summary ${isError ? "failed" : ""}`} aria-label=${title}>
    <h2>${title} <small>${visible(outcome)}</small></h2>
    <dl>${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${text && html`<pre class="text">${visible(text)}</pre>`}
    ${models.length > 0 &&
    html`<table><caption class="hidden">Use of each model</caption>
      <thead><tr><th scope="col">Model</th><th scope="col">Input</th><th scope="col">Cache</th>
        <th scope="col">Output</th><th scope="col">Cost</th></tr></thead>
      <tbody>${models.map((use) => html`<tr key=${use.name}><th scope="row"
        title=${visible(use.name)}>${shortModel(visible(use.name))}</th>
        <td>${short(use.usage?.input_tokens ?? 0)}</td>
        <td>${short((use.usage?.cache_creation_input_tokens ?? 0) +
          (use.usage?.cache_read_input_tokens ?? 0))}</td>
        <td>${short(use.usage?.output_tokens ?? 0)}</td>
        <td>${use.cost_usd == null ? "no price" : dollars(use.cost_usd)}</td></tr>`)}</tbody>
    </table>`}
  </section>`;
}
