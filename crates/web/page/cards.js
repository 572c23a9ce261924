// The parallel cards: one for each agent, the most urgent first.

import { html, useMemo } from "./vendor/preact-htm.js";
import { OVER } from "./fold.js";
import { recipient } from "./recipient.js";
import { link } from "./route.js";
import { useMay } from "./session.js";
import { use } from "./signal.js";
import { oneLine, visible } from "./text.js";
import { asksFor, clock, costOf, counted, now, numbers, short, shortModel, tokensOf } from "./words.js";

/** The groups of agents in their order, each with a mark that is readable without colour. */
export const GROUPS = /** @type {const} */ ({
  input: { words: "needs you", mark: "!" },
  failed: { words: "failed", mark: "×" },
  leaving: { words: "shutting down", mark: "◐" },
  working: { words: "working", mark: "●" },
  idle: { words: "idle", mark: "○" },
  ended: { words: "ended", mark: "✓" },
});

/** @typedef {keyof typeof GROUPS} Group */

const ORDER = /** @type {Group[]} */ (Object.keys(GROUPS));

/**
 * Returns why the agent waits for a person. Returns an empty text if it does not.
 * @param {Agent} agent
 * @param {OpenQuestion[]} questions
 * @param {Plan[]} plans
 */
export function needs(agent, questions, plans) {
  const asked = questions.filter((open) => open.question.asker === agent.name);
  const first = asked[0];
  if (first) {
    const more = asked.length > 1 ? ` (and ${asked.length - 1} more)` : "";
    return asksFor(first.question.tool) + more;
  }
  // The card of a member that another client runs does not have this state.
  const hasPlan = plans.some((plan) => plan.state === "open" && plan.member === agent.name);
  if (hasPlan || agent.status === "awaiting_plan_approval") return "its plan waits for an answer";
  return OVER.includes(agent.status) ? "" : (agent.process?.waits_for ?? "");
}

/**
 * @param {Agent} agent
 * @param {OpenQuestion[]} questions
 * @param {Plan[]} plans
 * @returns {Group}
 */
export function groupOf(agent, questions, plans) {
  if (needs(agent, questions, plans)) return "input";
  if (agent.status === "failed") return "failed";
  if (agent.status === "shutdown_requested") return "leaving";
  if (agent.status === "running") return "working";
  if (agent.status === "completed" || agent.status === "killed") return "ended";
  return "idle";
}

/**
 * Returns the agents in the order of the cards. Within a group they keep the order of the team.
 * @param {Agent[]} agents
 * @param {OpenQuestion[]} questions
 * @param {Plan[]} plans
 */
export function inOrder(agents, questions, plans) {
  const placed = agents.map((agent) => ({ agent, group: groupOf(agent, questions, plans) }));
  return placed.sort((a, b) => ORDER.indexOf(a.group) - ORDER.indexOf(b.group));
}

/** @param {{store: Store}} props */
export function Cards({ store }) {
  const { team, questions, writing, outcome } = use(store.host);
  const [mail, plans] = [use(store.log.mail), use(store.plans)];
  // Nobody reads the mail of an archived team, or of a replay.
  const isOver = use(store.isArchived);
  const mayWrite = useMay("answer") && !isOver;
  // After the end of a run, the mail is read when the team is resumed.
  const isRunning = use(store.link) === "live" && !outcome;
  return html`<h2 class="hidden">Agents</h2><ul class="cards" aria-label=${`Agents of team ${visible(team.team)}`}>
    ${inOrder(team.agents, questions, plans).map(({ agent, group }) => html`<li key=${agent.name}>
      <${Card} team=${store.name} agent=${agent} group=${group} lead=${team.lead}
        needs=${needs(agent, questions, plans)} writing=${writing.get(agent.name) ?? ""}
        mail=${mail.get(agent.name)}
        mayWrite=${mayWrite && !(isRunning && OVER.includes(agent.status))} /></li>`)}
  </ul>`;
}

/**
 * @typedef {{team: string, agent: Agent, group: Group, lead?: string | null, needs: string,
 *   writing: string, mail?: Entry, mayWrite: boolean}} CardProps
 */

/**
 * A card. It is drawn again only if something on it changes, because there can be many.
 * @param {CardProps} props
 */
function Card(props) {
  return useMemo(() => drawn(props), Object.values(props));
}

/** @param {CardProps} props */
function drawn({ team, agent, group, lead, needs, writing, mail, mayWrite }) {
  const { mark, words } = GROUPS[group];
  const name = visible(agent.name);
  const state = group === "ended" && agent.status === "killed" ? "stopped" : words;
  const doing = activity(agent, needs);
  return html`<article class=${`card ${group} ${colorClass(agent)}`} aria-label=${name}>
    <header>
      <h3><a href=${link(team, "member", agent.name)}>${name}</a>${
        agent.name === lead && html` <span class="lead">lead</span>`}</h3>
      <span class="state"><span aria-hidden="true">${mark}</span> ${state}</span>
    </header>
    ${doing !== state && html`<p class="now">${doing}</p>`}
    ${agent.task && html`<p class="task"><a href=${link(team, "tasks", agent.task.id)}>#${
      visible(agent.task.id)}</a> ${visible(agent.task.subject)}</p>`}
    ${writing
      ? html`<p class="writing" aria-hidden="true">${oneLine(writing.slice(-200), 200)}</p>`
      : mail && html`<p class="mail"><span class="from">${visible(mail.agent ?? "")} ${
          clock(mail.at_ms)}</span> ${mailText(mail)}</p>`}
    <${Badges} agent=${agent} />
    <footer>
      <span>${numbers(agent)}</span>
      ${mayWrite && agent.role !== "subagent" && html`<button class="quiet"
        aria-label=${`Message ${name}`} onClick=${() => recipient(agent.name)}>Message</button>`}
    </footer>
  </article>`;
}

/**
 * @param {Agent} agent
 * @param {string} needs
 */
function activity(agent, needs) {
  if (needs) return visible(needs);
  if (agent.status === "failed") return oneLine(agent.reason ?? "failed", 300);
  if (agent.reason && ["completed", "killed"].includes(agent.status)) {
    return `ended: ${oneLine(agent.reason, 200)}`;
  }
  return now(agent);
}

/** @param {Entry} mail */
function mailText(mail) {
  return oneLine(mail.summary ?? mail.content ?? mail.text, 200);
}

/** @param {Agent} agent */
export function colorClass(agent) {
  return `c-${/^[a-z]+$/.test(agent.color ?? "") ? agent.color : "none"}`;
}

/** @param {{agent: Agent}} props */
export function Badges({ agent }) {
  const model = visible(agent.model ?? "");
  return html`<ul class="badges" aria-label="Properties">
    ${agent.color && html`<li class="color"><span class="dot" aria-hidden="true"></span>${
      visible(agent.color)}</li>`}
    ${model && html`<li class="model" title=${model}>${shortModel(model)}</li>`}
    ${agent.agent_type && html`<li class="type">${visible(agent.agent_type)}</li>`}
    ${agent.mode && html`<li class="mode">${visible(agent.mode)}</li>`}
    ${agent.worktree && html`<li title=${visible(agent.worktree)}>worktree</li>`}
  </ul>`;
}

/**
 * Returns the numbers of the whole team.
 * @param {TeamView} team
 * @param {OpenQuestion[]} questions
 * @param {Plan[]} plans
 */
export function totals(team, questions, plans) {
  const { agents } = team;
  const working = agents.filter((agent) => groupOf(agent, questions, plans) === "working").length;
  const tokens = agents.reduce((sum, agent) => sum + tokensOf(agent.usage), 0);
  const parts = [`${working} of ${counted(agents.length, "agent")} working`, costOf(team)];
  if (tokens > 0) parts.splice(1, 0, `${short(tokens)} tokens`);
  return parts.filter(Boolean).join(" · ");
}
