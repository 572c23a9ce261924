// A replay as moments: the state of the team after each of its events. The events carry the fields
// that changed; `view::replay` in Rust folded them. Every function here is pure, so a moment can be
// kept: it shares all that did not change with the moment before.

import { ofSnapshot } from "./fold.js";
import { entryOf } from "./log.js";

/** Every so many events a moment is kept. A jump folds at most as many events. */
export const FRAME_EVENTS = 256;

/**
 * @typedef {{count: number, host: HostState, entries: number, mail: Map<string, Entry>,
 *   banner: Entry | null, end: Entry | null}} Moment
 * @typedef {{at: number, part: Part, changes: {at: number, fields: Partial<Part>}[]}} RecordedPart
 */

/** A run as timed events. More events can be added at the end. */
export class Recording {
  /** @param {Recorded} replay */
  constructor(replay) {
    this.isClock = replay.clock === "recorded";
    /** The time of the first event. */
    this.from = replay.from_ms;
    /** The number of the first event. */
    this.first = replay.first.next_seq ?? 0;
    /** @type {TimedEvent[]} */
    this.events = [];
    /** All entries of the timeline. @type {Entry[]} */
    this.entries = [];
    /** The number of the event of each entry. @type {number[]} */
    this.entryAt = [];
    /** The parts of the conversations. @type {Map<string, Map<number, RecordedPart>>} */
    this.conversations = new Map();
    const host = withQuestions(ofSnapshot(replay.first));
    /** @type {Moment[]} */
    this.frames = [{ count: 0, host, entries: 0, mail: new Map(), banner: null, end: null }];
    this.add(replay.events);
  }

  /** The time of the last event. */
  get to() {
    return this.events.at(-1)?.at_ms ?? this.from;
  }

  /** Whether nothing has happened yet, so that there is no moment. */
  get isEmpty() {
    return this.events.length === 0;
  }

  /** The number of the next event. */
  get next() {
    return this.first + this.events.length;
  }

  /** @param {TimedEvent[]} events */
  add(events) {
    for (const event of events) {
      if (this.first + this.events.length !== event.seq) continue;
      if (this.isEmpty) this.from = event.at_ms;
      const at = this.events.push(event) - 1;
      const { happened, part, call } = event.what;
      if (happened) {
        const entry = entryOf(happened, this.entries.length);
        if (this.isClock) entry.at_ms ??= event.at_ms;
        this.entries.push(entry);
        this.entryAt.push(at);
      } else if (part) {
        this.conversation(part.agent).set(part.n, { at, part: part.part, changes: [] });
      } else if (call) {
        this.conversation(call.agent).get(call.n)?.changes.push({ at, fields: call.fields });
      }
    }
  }

  /** @param {string} agent */
  conversation(agent) {
    const known = this.conversations.get(agent) ?? new Map();
    this.conversations.set(agent, known);
    return known;
  }

  /**
   * Returns the number of events up to a time.
   * @param {number} ms
   */
  countAt(ms) {
    return below(this.events.length, (at) => (this.events[at]?.at_ms ?? 0) <= ms);
  }

  /**
   * Returns the moment after the first events.
   * @param {number} count
   * @returns {Moment}
   */
  moment(count) {
    const known = Math.min(Math.floor(count / FRAME_EVENTS), this.frames.length - 1);
    let moment = /** @type {Moment} */ (this.frames[known]);
    while (moment.count < count) {
      moment = this.after(moment);
      if (moment.count === this.frames.length * FRAME_EVENTS) this.frames.push(moment);
    }
    return moment;
  }

  /**
   * Keeps the next moments, for at most `ms` milliseconds. Returns false when all are kept.
   * @param {number} ms
   */
  prepare(ms) {
    const end = performance.now() + ms;
    const last = Math.floor(this.events.length / FRAME_EVENTS);
    while (this.frames.length <= last && performance.now() < end) {
      this.moment(this.frames.length * FRAME_EVENTS);
    }
    return this.frames.length <= last;
  }

  /**
   * @param {Moment} moment
   * @returns {Moment}
   */
  after(moment) {
    const { changed, happened } = this.events[moment.count]?.what ?? {};
    const next = { ...moment, count: moment.count + 1 };
    if (changed) next.host = withChanges(moment.host, changed);
    const entry = happened && this.entries[moment.entries];
    return entry ? withEntry(next, entry, happened.what?.event) : next;
  }

  /**
   * Returns the conversation of an agent after the first events.
   * @param {string} agent
   * @param {number} count
   * @returns {Part[]}
   */
  parts(agent, count) {
    const told = [...(this.conversations.get(agent)?.values() ?? [])];
    const there = told.slice(0, below(told.length, (n) => (told[n]?.at ?? 0) < count));
    return there.map(({ part, changes }) =>
      changes.reduce((part, { at, fields }) => (at < count ? { ...part, ...fields } : part), part),
    );
  }

  /**
   * Returns the time of the next event after a time. After the last one, it is the end.
   * @param {number} ms
   */
  timeAfter(ms) {
    return this.events[this.countAt(ms)]?.at_ms ?? this.to;
  }

  /** Whether the session has ended at the end of the recording. */
  get isFinished() {
    return this.moment(this.events.length).host.team.session != null;
  }

  /**
   * Returns the time of the next entry after a time that is shown, or of the one before it.
   * @param {number} ms
   * @param {1 | -1} step
   * @param {(entry: Entry) => boolean} isShown
   */
  neighbour(ms, step, isShown) {
    const time = (/** @type {number} */ n) => this.events[this.entryAt[n] ?? -1]?.at_ms ?? 0;
    const isBefore = (/** @type {number} */ n) => (step === 1 ? time(n) <= ms : time(n) < ms);
    const next = below(this.entries.length, isBefore);
    for (let n = step === 1 ? next : next - 1; ; n += step) {
      const entry = this.entries[n];
      if (!entry) return step === 1 ? this.to : this.from;
      if (isShown(entry)) return time(n);
    }
  }
}

/**
 * Returns the number of first elements for which a test is true. The test is false for all others.
 * @param {number} length
 * @param {(index: number) => boolean} test
 */
export function below(length, test) {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * @param {HostState} host
 * @param {Changes} told
 * @returns {HostState}
 */
function withChanges(host, told) {
  let { agents } = host.team;
  if (told.agents) {
    const fields = new Map(told.agents.map((agent) => [agent.name, agent]));
    agents = agents.map((agent) => {
      const changed = fields.get(agent.name);
      fields.delete(agent.name);
      return changed ? { ...agent, ...changed } : agent;
    });
    agents.push(.../** @type {Iterable<Agent>} */ (fields.values()));
  }
  if (told.order) {
    const known = new Map(agents.map((agent) => [agent.name, agent]));
    agents = told.order.flatMap((name) => known.get(name) ?? []);
  }
  const tasks = told.tasks || told.tasks_gone ? withTasks(host.tasks, told) : host.tasks;
  return withQuestions({ ...host, team: { ...host.team, ...told.team, agents }, tasks });
}

/**
 * Adds the requests that wait. A replay has only who asks, and for which tool.
 * @param {HostState} host
 * @returns {HostState}
 */
function withQuestions(host) {
  const rest = { folder: "", reason: "", lines: [], offers: [], digest: "" };
  const questions = host.team.agents.flatMap(({ name: asker, asks }) =>
    Object.entries(asks ?? {}).map(([id, tool]) => {
      return { id, since_ms: 0, question: { asker, tool, ...rest } };
    }),
  );
  return { ...host, questions };
}

/**
 * @param {Task[]} tasks
 * @param {Changes} told
 */
function withTasks(tasks, { tasks: changed = [], tasks_gone: gone = [] }) {
  const shown = changed.filter((task) => task.metadata?._internal !== true);
  const other = new Set([...gone, ...changed.map((task) => task.id)]);
  const all = [...tasks.filter((task) => !other.has(task.id)), ...shown];
  return all.sort((a, b) => Number(a.id) - Number(b.id));
}

/**
 * @param {Moment} moment
 * @param {Entry} entry
 * @param {string | undefined} event
 * @returns {Moment}
 */
function withEntry(moment, entry, event) {
  const next = { ...moment, entries: moment.entries + 1 };
  if (event === "run_ended") next.end = entry;
  if (event === "run_started") next.end = null;
  const receiver = entry.kind === "mail" ? entry.to[0] : undefined;
  if (entry.isToTeam) next.banner = entry;
  else if (receiver !== undefined) next.mail = new Map(moment.mail).set(receiver, entry);
  return next;
}
