// The timeline of a team as entries of one form. They come from the team's log, or from the stream
// of another client.

import { Signal } from "./signal.js";
import { oneLine } from "./text.js";

/** The groups by which a person filters the timeline, with the kinds of the log in each. */
export const GROUPS = /** @type {const} */ ({
  mail: ["mail"],
  tasks: ["task"],
  texts: ["said"],
  requests: ["plan", "permission"],
  agents: ["member", "run"],
  details: ["state", "delivery", "turn"],
});

/** The number of entries that are read again, as the server can insert an entry before them. */
export const OVERLAP = 100;

/** The number of entries that are known by their content. */
const KNOWN_MOST = 3_000;

/** The entries of a timeline, in the order in which they became known. */
export class Log {
  constructor() {
    /** @type {Entry[]} */
    this.entries = [];
    /** The latest entries of the server's log, as text. @type {Set<string>} */
    this.known = new Set();
    /** Counts the additions, so that a component learns of them. */
    this.version = new Signal(0);
    /** The latest message to each agent. */
    this.mail = new Signal(/** @type {Map<string, Entry>} */ (new Map()));
    /** The end of the latest run. */
    this.end = new Signal(/** @type {Entry | null} */ (null));
    /** The latest message to the whole team. */
    this.banner = new Signal(/** @type {Entry | null} */ (null));
  }

  /**
   * Adds the entries of the server's log that are new.
   * @param {any[]} happened
   */
  merge(happened) {
    const fresh = happened.filter((one) => {
      const key = JSON.stringify([one.at_ms, one.event, one.agent, one.to, one.text]);
      const isNew = !this.known.has(key);
      this.known.add(key);
      return isNew && !this.widen(one);
    });
    for (const key of this.known) {
      if (this.known.size <= KNOWN_MOST) break;
      this.known.delete(key);
    }
    this.add(fresh);
  }

  /**
   * Adds receivers to a message, if it is in the timeline with fewer of them.
   * @param {any} one
   */
  widen(one) {
    if (one.kind !== "mail" || one.to?.length < 2) return false;
    const earlier = this.entries
      .slice(-OVERLAP)
      .find((it) => it.at_ms === one.at_ms && it.agent === one.agent && it.content === one.content);
    if (!earlier) return false;
    Object.assign(earlier, entryOf(one, earlier.n));
    this.banner.value = { ...earlier };
    this.version.value += 1;
    return true;
  }

  /** @param {any[]} happened */
  add(happened) {
    if (happened.length === 0) return;
    const mail = new Map(this.mail.value);
    for (const one of happened) {
      const entry = entryOf(one, this.entries.length);
      this.entries.push(entry);
      if (one.event === "run_ended") this.end.value = entry;
      if (one.event === "run_started") this.end.value = null;
      if (entry.isToTeam) this.banner.value = entry;
      else if (entry.kind === "mail" && entry.to[0] !== undefined) mail.set(entry.to[0], entry);
    }
    this.mail.value = mail;
    this.version.value += 1;
  }
}

/**
 * @param {any} given an entry with its number, or only what happened
 * @param {number} n
 * @returns {Entry}
 */
export function entryOf(given, n) {
  const what = given?.what ?? given ?? {};
  const entry = {
    n,
    at_ms: what.at_ms ?? null,
    kind: what.kind ?? "run",
    agent: what.agent ?? null,
    to: Array.isArray(what.to) ? what.to : [],
    text: what.text ?? "",
    content: what.content ?? null,
    tokens: what.tokens,
    cost_usd: what.cost_usd,
    isToTeam: false,
    isFailure: false,
  };
  const ofClient = CLIENT[what.happened];
  if (ofClient) return { ...entry, to: [], ...ofClient(what) };
  entry.isToTeam = entry.kind === "mail" && entry.to.length > 1;
  return entry.kind === "mail" ? withRemark(entry) : entry;
}

/** A comment on a line, as `diff.js` and the terminal write it: the place, the line, the remark. */
const REVIEW = /^(Review of [^\n]+:)\n(?:> [^\n]*\n)?\n(.+)/s;

/**
 * Shows the remark of a comment on a line in place of that line.
 * @param {Entry} entry
 * @returns {Entry}
 */
function withRemark(entry) {
  const [, place = "", remark = ""] = REVIEW.exec(entry.content ?? "") ?? [];
  if (remark === "") return entry;
  const summary = `${place} ${oneLine(remark, 300)}`;
  return { ...entry, summary, text: entry.text.replace(place, () => summary) };
}

/** @type {Record<string, (what: any) => Partial<Entry>>} */
const CLIENT = {
  team_created: (it) => ({ kind: "run", text: `team ${it.team} created` }),
  spawned: (it) => ({
    kind: "member",
    text: `started (${[it.agent_type, it.model, it.color].filter(Boolean).join(", ")})`,
  }),
  said: (it) => ({ kind: "said", text: oneLine(it.text, 300), content: it.text }),
  mail: (it) => ofMail(it),
  task: (it) => ({ kind: "task", agent: it.by, text: `task #${it.id} ${it.change}` }),
  cleaned_up: () => ({ kind: "run", text: "team cleaned up" }),
  cleanup_failed: (it) => ({
    kind: "run",
    text: `team not cleaned up: ${oneLine(it.reason, 300)}`,
    content: it.reason,
    isFailure: true,
  }),
  session_ended: (it) => ({
    kind: "run",
    text: `session ended: ${String(it.outcome).replaceAll("_", " ")}`,
  }),
};

/** @param {any} mail */
function ofMail(mail) {
  const toTeam = mail.to?.team;
  const to = toTeam ?? [mail.to?.agent];
  const receivers = toTeam ? `@team (${to.join(", ")})` : `@${to[0]}`;
  const kind = ["message", "broadcast"].includes(mail.kind) ? "" : mail.kind.replaceAll("_", " ");
  const said = oneLine(mail.summary ?? mail.text, 300);
  const parts = [`to ${receivers}`, kind].filter(Boolean).join(", ");
  return {
    kind: "mail",
    agent: mail.from,
    to,
    text: said ? `${parts}: ${said}` : parts,
    content: mail.text,
    summary: mail.summary,
    isToTeam: toTeam !== undefined,
  };
}

/** The filter of a timeline that shows all but the details. */
export const ALL = { group: "all", words: "" };

/** A part of a timeline that is kept up to date without reading the whole timeline again. */
export class Matches {
  /** @param {Log} log */
  constructor(log) {
    this.log = log;
    /** @type {Entry[]} */
    this.found = [];
    this.read = 0;
    this.key = "";
  }

  /**
   * Returns the entries that match.
   * @param {Filter} filter
   * @returns {Entry[]}
   */
  of(filter) {
    const key = JSON.stringify(filter);
    if (key !== this.key) {
      this.key = key;
      this.found = [];
      this.read = 0;
    }
    const isShown = matcher(filter);
    const { entries } = this.log;
    if (this.read !== entries.length) this.found = this.found.slice();
    // A replay goes back too. Its entries are then the first ones of those that were read.
    while ((this.found.at(-1)?.n ?? -1) >= entries.length) this.found.pop();
    this.read = Math.min(this.read, entries.length);
    for (; this.read < entries.length; this.read += 1) {
      const entry = entries[this.read];
      if (entry && isShown(entry)) this.found.push(entry);
    }
    return this.found;
  }
}

/**
 * Returns a function that says whether a filter shows an entry.
 * @param {Filter} filter
 * @returns {(entry: Entry) => boolean}
 */
export function matcher({ group, words: text }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = /** @type {Record<string, readonly string[]>} */ (GROUPS);
  return (entry) => {
    const isDetail = GROUPS.details.includes(/** @type {any} */ (entry.kind));
    const isInGroup = group === "all" ? !isDetail : groups[group]?.includes(entry.kind);
    return Boolean(isInGroup) && words.every((word) => {
      if (word.startsWith("@")) return concerns(entry, word.slice(1));
      return `${entry.agent ?? ""} ${entry.text} ${entry.content ?? ""}`.toLowerCase().includes(word);
    });
  };
}

/**
 * @param {Entry} entry
 * @param {string} name
 */
function concerns(entry, name) {
  return [entry.agent ?? "", ...entry.to].some((it) => it.toLowerCase().startsWith(name));
}
