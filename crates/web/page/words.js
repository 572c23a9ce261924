// Short texts for states, numbers, times and tool calls. They are the same as in the terminal.

import { firstLine } from "./text.js";

/** The fields of a tool's input that say most about a call, the most informative first. */
const TELLING = [
  "command",
  "file_path",
  "pattern",
  "recipient",
  "to",
  "name",
  "subject",
  "taskId",
  "team_name",
  "request_id",
];

const CALL_CHARS = 60;

/**
 * Returns a tool call as one line: the tool and the most informative field of its input.
 * @param {string} tool
 * @param {unknown} input
 */
export function brief(tool, input) {
  const fields = /** @type {Record<string, unknown>} */ (
    input !== null && typeof input === "object" ? input : {}
  );
  const telling = TELLING.map((name) => fields[name]).find((value) => typeof value === "string");
  return telling === undefined ? tool : `${tool}(${firstLine(telling, CALL_CHARS)})`;
}

/** @param {string} tool */
export function asksFor(tool) {
  return tool === "ExitPlanMode" ? "asks to approve its plan" : `asks permission for ${tool}`;
}

/**
 * Returns the state of an agent as words.
 * @param {string} status
 */
export function stateInWords(status) {
  if (status === "completed") return "ended";
  if (status === "shutdown_requested") return "shutting down";
  if (status === "running") return "working";
  if (status === "killed") return "stopped";
  return status.replaceAll("_", " ");
}

/** What the sender of a frame does. */
const FRAMES = new Map([
  ["idle_notification", "has ended its turn"],
  ["shutdown_request", "asks to shut down"],
  ["shutdown_approved", "agrees to shut down"],
  ["shutdown_rejected", "does not shut down"],
  ["plan_approval_request", "hands in a plan"],
  ["plan_approval_response", "answers the plan"],
  ["task_assignment", "assigns a task"],
  ["teammate_terminated", "reports the end of a teammate"],
]);

/** @param {string} kind */
export function frameInWords(kind) {
  return FRAMES.get(kind) ?? `sends a ${kind.replaceAll("_", " ")}`;
}

/** The ends of a run whose words are not their names. */
const ENDS = new Map([
  ["success", "completed"],
  ["parked", "model unavailable"],
]);

/**
 * Returns how a run ended. The words are those of the log.
 * @param {RunOutcome["end"]} end
 */
export function endInWords({ kind, shortfall, limit }) {
  const told = kind === "limit_reached" && limit ? `max_${limit}` : (shortfall ?? kind);
  return ENDS.get(told) ?? told.replaceAll("_", " ");
}

/**
 * Returns the agent's current activity.
 * @param {Agent} agent
 */
export function now(agent) {
  if (agent.doing) return firstLine(agent.doing, 120);
  if (agent.status !== "running") return stateInWords(agent.status);
  const asked = Object.values(agent.asks ?? {})[0];
  return asked === undefined ? "thinks" : asksFor(asked);
}

/** A longer name of a model is shortened. Its end says more than its middle. */
const MODEL_CHARS = 34;
const MODEL_START_CHARS = 8;

/** @param {string} name */
export function shortModel(name) {
  const characters = Array.from(name);
  if (characters.length <= MODEL_CHARS) return name;
  const end = characters.slice(MODEL_START_CHARS + 1 - MODEL_CHARS);
  return `${characters.slice(0, MODEL_START_CHARS).join("")}…${end.join("")}`;
}

/** @param {number} count */
export function short(count) {
  if (count < 1_000) return String(count);
  if (count < 1_000_000) return `${(Math.floor(count / 100) / 10).toFixed(1)}k`;
  return `${(Math.floor(count / 100_000) / 10).toFixed(1)}M`;
}

/** @param {number} usd */
export function dollars(usd) {
  return usd > 0 && usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

/**
 * Returns how many tokens a conversation has.
 * @param {Usage | undefined} usage
 */
export function tokensOf(usage) {
  if (!usage) return 0;
  return (
    (usage.input_tokens ?? 0) +
    (usage.output_tokens ?? 0) +
    (usage.cache_creation_input_tokens ?? 0) +
    (usage.cache_read_input_tokens ?? 0)
  );
}

/** @param {number | null | undefined} ms */
export function clock(ms) {
  if (!ms) return "";
  return new Date(ms).toLocaleTimeString([], { hourCycle: "h23" });
}

/** @param {number} ms */
export function dateTime(ms) {
  return new Date(ms).toLocaleString([], { hourCycle: "h23" });
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export function counted(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

/**
 * Returns what an agent has used. The limit counts the turns of earlier runs too.
 * @param {Agent} agent
 */
export function numbers(agent) {
  if (agent.is_counted === false) return "not counted";
  const tokens = tokensOf(agent.usage);
  const limit = agent.max_turns == null ? "" : ` (limit ${agent.max_turns})`;
  // Of an agent of another client, the turns are often not known.
  const parts = agent.turns > 0 || limit ? [counted(agent.turns, "turn") + limit] : [];
  if (tokens > 0) parts.push(`${short(tokens)} tokens`);
  if (tokens > 0 && agent.has_price !== false) parts.push(dollars(agent.cost_usd));
  return parts.join(" · ");
}

/**
 * Returns the cost of a team, beside its limit. It is empty if both are unknown.
 * @param {TeamView} team
 */
export function costOf({ agents, limits, spent_before_usd }) {
  const cost = agents.reduce((sum, agent) => sum + (agent.cost_usd ?? 0), spent_before_usd ?? 0);
  const most = limits?.max_cost_usd;
  if (most != null) return `${dollars(cost)} (limit ${dollars(most)})`;
  return cost > 0 ? dollars(cost) : "";
}
