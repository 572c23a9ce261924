// Computes the state of a team from a snapshot of its host and the events after it. The functions
// are pure: an agent that did not change keeps its object, so its card is not drawn again.

import { asksFor, brief } from "./words.js";

const COLORS = ["blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red"];

/** The states in which an agent has ended. */
export const OVER = ["completed", "failed", "killed"];

/** The number of characters that are kept of a text that a model is writing. */
const WRITING_CHARS = 600;

/** @type {HostState} */
export const EMPTY = {
  next_seq: 0,
  team: { team: "", agents: [] },
  tasks: [],
  questions: [],
  writing: new Map(),
  outcome: null,
};

/**
 * Returns the state that a snapshot describes. Missing fields are filled in, because the host may
 * have another version.
 * @param {Partial<HostState>} snapshot
 * @returns {HostState}
 */
export function ofSnapshot(snapshot) {
  const team = { ...EMPTY.team, ...snapshot.team };
  const tasks = snapshot.tasks ?? [];
  const questions = (snapshot.questions ?? []).filter((open) => isRequest(team, open));
  // A tab with an earlier version of the page can pass on texts of another form.
  const writing = snapshot.writing instanceof Map ? snapshot.writing : EMPTY.writing;
  const state = { ...EMPTY, ...snapshot, team, questions, writing };
  return withTasks(state, tasks.length ? tasks : (team.tasks ?? []));
}

/**
 * A teammate's plan is no request here: the list of plans has it.
 * @param {TeamView} team
 * @param {OpenQuestion} open
 */
function isRequest(team, { question }) {
  return question.tool !== "ExitPlanMode" || question.asker === team.lead;
}

/**
 * Returns the state after an event. An unknown event changes only the number of the next event.
 * @param {HostState} state
 * @param {HostEvent} event
 * @returns {HostState}
 */
export function fold(state, event) {
  const next = { ...state, next_seq: event.seq + 1 };
  const what = event.what;
  if (what.run) return foldRun(next, what.run);
  if (what.question_opened) return opened(next, what.question_opened);
  if (what.question_closed) {
    const { id } = what.question_closed;
    return { ...next, questions: next.questions.filter((question) => question.id !== id) };
  }
  if (what.tasks) return withTasks(next, what.tasks);
  if (what.config) return withConfig(next, what.config);
  if (what.ended) return ended(next, what.ended);
  return next;
}

/**
 * @param {HostState} state
 * @param {OpenQuestion} question
 */
function opened(state, question) {
  if (!isRequest(state.team, question)) return state;
  const others = state.questions.filter((known) => known.id !== question.id);
  return { ...state, questions: [...others, question] };
}

/**
 * @param {HostState} state
 * @param {RunEvent} event
 * @returns {HostState}
 */
function foldRun(state, event) {
  const name = event.agent;
  switch (event.event) {
    case "started":
      return restart(
        { ...state, team: startedTeam(state.team, event), outcome: null },
        { ...newAgent(name), model: event.model, mode: event.mode },
      );
    case "agent_started":
      return restart(state, startedAgent(event));
    case "agent_changed":
      return change(state, name, (agent) => changed(agent, event));
    case "answered":
      return spent(without(state, name), name, event, calls(event.blocks));
    case "compacted":
      return spent(state, name, event, 0);
    case "turn_ended":
      return spent(state, name, event.spending, event.spending?.tool_calls ?? 0);
    case "text_delta":
      return written(change(state, name, doing("writes")), name, event.text ?? "");
    case "model_waits":
      return change(without(state, name), name, doing(waits(event)));
    case "model_silent":
      return change(state, name, doing(silent(event)));
    case "tool_started":
      return change(state, name, doing(brief(event.tool ?? "", event.input)));
    case "tool_ended":
      return change(state, name, doing(null));
    case "permission_asked":
      return change(state, name, (agent) => ({
        doing: asksFor(event.tool ?? ""),
        asks: { ...agent.asks, [event.call ?? ""]: event.tool ?? "" },
      }));
    case "permission_answered":
      return change(state, name, (agent) => {
        const { [event.call ?? ""]: _answered, ...asks } = agent.asks ?? {};
        return { doing: null, asks };
      });
    case "mode_changed":
      return change(state, name, () => ({ mode: event.mode }));
    case "model_changed":
      return change(state, name, () => ({ model: event.model }));
    default:
      return state;
  }
}

/**
 * @param {HostState} state
 * @param {string} name
 * @param {(agent: Agent) => Partial<Agent>} fields
 * @returns {HostState}
 */
function change(state, name, fields) {
  const agents = state.team.agents.map((agent) =>
    agent.name === name ? { ...agent, ...fields(agent) } : agent,
  );
  return { ...state, team: { ...state.team, agents } };
}

/**
 * @param {TeamView} team
 * @param {RunEvent} event
 * @returns {TeamView}
 */
function startedTeam(team, { team: name, agent: lead, limits, spent_before_usd }) {
  return { ...team, team: name, lead, limits, spent_before_usd };
}

/** @param {string | null} text */
function doing(text) {
  return () => ({ doing: text });
}

/** @param {RunEvent} event */
function waits(event) {
  return `waits ${Math.ceil((event.delay_ms ?? 0) / 1000)} s for the model: ${event.reason ?? ""}`;
}

/** @param {RunEvent} event */
function silent(event) {
  const seconds = Math.floor((event.silent_for_ms ?? 0) / 1000);
  return `no answer from the model for ${seconds} s, still waiting`;
}

/**
 * @param {string} name
 * @returns {Agent}
 */
function newAgent(name) {
  return {
    name,
    status: "pending",
    turns: 0,
    tool_calls: 0,
    usage: {},
    cost_usd: 0,
    has_price: true,
    is_counted: true,
    doing: null,
    asks: {},
  };
}

/**
 * @param {RunEvent} event
 * @returns {Agent}
 */
function startedAgent(event) {
  return {
    ...newAgent(event.agent),
    role: event.parent_call ? "subagent" : "teammate",
    color: knownColor(event.color),
    agent_type: event.agent_type,
    model: event.model,
    mode: event.mode,
  };
}

/**
 * Returns the limit on the turns of an agent: its own one, or that of the run if it is smaller.
 * @param {number | null | undefined} own
 * @param {Limits | undefined} limits
 */
function least(own, limits) {
  const most = Math.min(own ?? Infinity, limits?.max_turns ?? Infinity);
  return most < Infinity ? most : null;
}

/** @param {string | null | undefined} color */
function knownColor(color) {
  return color && COLORS.includes(color) ? color : null;
}

/**
 * Adds an agent that has just started, in place of an earlier one with the same name.
 * @param {HostState} state
 * @param {Agent} agent
 * @returns {HostState}
 */
function restart(state, agent) {
  const earlier = state.team.agents.find((known) => known.name === agent.name);
  const { task, backend_type, worktree, process } = earlier ?? {};
  const max_turns = least(earlier?.max_turns, state.team.limits);
  const others = state.team.agents.filter((known) => known !== earlier);
  const kept = { ...agent, task, backend_type, worktree, process, max_turns };
  const agents = [...others, kept];
  return { ...state, team: { ...state.team, agents } };
}

/**
 * @param {Agent} agent
 * @param {RunEvent} event
 * @returns {Partial<Agent>}
 */
function changed(agent, event) {
  const status = event.status ?? agent.status;
  // The detail of an active agent in another process says what the agent waits for.
  const text = status === "running" ? (event.detail ?? null) : null;
  if (!OVER.includes(status)) return { status, doing: text };
  return { status, doing: text, asks: {}, reason: event.detail };
}

/** @param {any[] | undefined} blocks */
function calls(blocks) {
  return (blocks ?? []).filter((block) => block?.type === "tool_use").length;
}

/**
 * Adds a model call to the numbers of an agent.
 * @param {HostState} state
 * @param {string} name
 * @param {{usage?: Usage, cost_usd?: number | null} | undefined} call
 * @param {number} toolCalls
 */
function spent(state, name, call, toolCalls) {
  const price = call?.cost_usd;
  return change(state, name, (agent) => ({
    doing: null,
    turns: agent.turns + 1,
    tool_calls: agent.tool_calls + toolCalls,
    usage: sum(agent.usage, call?.usage),
    cost_usd: agent.cost_usd + (price ?? 0),
    has_price: agent.has_price && price != null,
  }));
}

/**
 * @param {Usage} a
 * @param {Usage | undefined} b
 * @returns {Usage}
 */
function sum(a, b = {}) {
  /** @param {keyof Usage} field */
  const of = (field) => (a[field] ?? 0) + (b[field] ?? 0);
  return {
    input_tokens: of("input_tokens"),
    output_tokens: of("output_tokens"),
    cache_creation_input_tokens: of("cache_creation_input_tokens"),
    cache_read_input_tokens: of("cache_read_input_tokens"),
  };
}

/**
 * @param {HostState} state
 * @param {string} name
 * @param {string} text
 */
function written(state, name, text) {
  const whole = ((state.writing.get(name) ?? "") + text).slice(-WRITING_CHARS);
  return { ...state, writing: new Map(state.writing).set(name, whole) };
}

/**
 * @param {HostState} state
 * @param {string} name
 */
function without(state, name) {
  const writing = new Map(state.writing);
  return writing.delete(name) ? { ...state, writing } : state;
}

/**
 * @param {HostState} state
 * @param {Task[]} tasks
 * @returns {HostState}
 */
function withTasks(state, tasks) {
  const shown = tasks.filter((task) => task.metadata?._internal !== true);
  shown.sort((a, b) => Number(a.id) - Number(b.id));
  const agents = state.team.agents.map((agent) => {
    const task = shown.find((it) => it.owner === agent.name && it.status === "in_progress");
    if (agent.task?.id === task?.id && agent.task?.subject === task?.subject) return agent;
    return { ...agent, task: task ? { id: task.id, subject: task.subject } : null };
  });
  return { ...state, tasks: shown, team: { ...state.team, agents } };
}

/**
 * @param {HostState} state
 * @param {TeamConfig} config
 * @returns {HostState}
 */
function withConfig(state, config) {
  const members = config.members ?? [];
  const known = state.team.agents;
  const listed = members.map((member) => {
    const agent = known.find((it) => it.name === member.name) ?? newAgent(member.name);
    const planning = member.planModeRequired ? "plan" : agent.mode;
    return {
      ...agent,
      color: knownColor(member.color),
      agent_type: member.agentType,
      model: member.model,
      mode: member.mode ?? planning,
      backend_type: member.backendType,
      worktree: member.worktreePath,
      max_turns: least(member.pitcrew?.maxTurns, state.team.limits),
    };
  });
  const rest = known.filter((agent) => !members.some((member) => member.name === agent.name));
  return { ...state, team: { ...state.team, team: config.name, agents: [...listed, ...rest] } };
}

/**
 * @param {HostState} state
 * @param {RunOutcome} outcome
 * @returns {HostState}
 */
function ended(state, outcome) {
  const models = new Map(Object.entries(outcome.totals?.models ?? {}));
  const agents = (outcome.agents ?? []).map((summary) => {
    const known = state.team.agents.find((agent) => agent.name === summary.name);
    const { state: status, ...numbers } = summary;
    const has_price = !models.get(summary.model)?.is_unpriced;
    return { ...(known ?? newAgent(summary.name)), ...numbers, status, has_price, doing: null };
  });
  // The numbers of the outcome include those of the earlier runs.
  const team = { ...state.team, agents, spent_before_usd: 0 };
  return { ...state, team, questions: [], writing: new Map(), outcome };
}
