// What the page knows of a team: the state of its host, its timeline, its plans, and the state of
// the connection. Components read the signals and are drawn again when these change.

import { Signal } from "./signal.js";
import { Failure, get, getChanged, inWords, ofTeam } from "./api.js";
import { EMPTY, fold, ofSnapshot } from "./fold.js";
import { ALL, Log, OVERLAP } from "./log.js";
import { follow } from "./stream.js";
import { withWarnings } from "./warnings.js";

/** The time that requests for the log and the plans wait for further events, in milliseconds. */
const SETTLE_MS = 150;

/** The longest time until events are folded, in milliseconds. */
const FRAME_MS = 100;

/** Events of a run after which the log has nothing new. */
const SILENT = ["text_delta", "model_waits", "model_silent", "tool_started"];

/** A team that the page follows. */
export class TeamStore {
  /** @param {string} name */
  constructor(name) {
    this.isReplay = /** @type {const} */ (false);
    this.name = name;
    /** The name for requests. An archived team has an id that no later team gets. */
    this.id = name;
    this.host = new Signal(EMPTY);
    this.link = new Signal(/** @type {Link} */ ("connecting"));
    this.plans = new Signal(/** @type {Plan[]} */ ([]));
    this.error = new Signal("");
    this.warnings = new Signal(/** @type {Warning[]} */ ([]));
    this.isArchived = new Signal(false);
    /** Whether nobody reads a message before the team is resumed. */
    this.isUnread = false;
    /** When the team was archived. @type {Signal<number | null>} */
    this.endedAt = new Signal(null);
    /** Whether the address has the id of the archive, which no later run gets. */
    this.isOfArchive = new Signal(false);
    /** Whether the name belongs to a later team, after the end of the one that is shown. */
    this.isAgain = new Signal(false);
    this.log = new Log();
    this.filter = new Signal(/** @type {Filter} */ (ALL));
    this.isStopped = false;
    this.nextEntry = 0;
    this.ofClient = 0;
    this.isReading = false;
    this.mustReadAgain = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.settling = undefined;
    /** @type {HostEvent[]} */
    this.waiting = [];
    this.stop = follow(name, (kind, data) => this.receive(kind, data), () => this.folded());
    this.settle();
  }

  close() {
    this.isStopped = true;
    clearTimeout(this.settling);
    this.stop();
  }

  /**
   * @param {StreamKind} kind
   * @param {any} data
   */
  receive(kind, data) {
    if (this.isStopped) return;
    if (kind === "link") {
      // A stream begins before the host has answered.
      const isKnown = data !== "live" || this.host.value !== EMPTY;
      if (isKnown) this.link.value = data;
      if (data === "lost") void this.readState();
    } else if (kind === "snapshot") {
      this.waiting = [];
      this.host.value = ofSnapshot(data?.snapshot ?? data ?? {});
      this.link.value = "live";
      this.isUnread = false;
      this.readTimeline();
      this.settle();
    } else if (kind === "event") {
      this.link.value = "live";
      this.queue(data);
    } else if (kind === "silent") {
      this.link.value = kind;
    } else {
      this.folded();
      this.link.value = kind === "end" ? "ended" : "gone";
      this.isUnread = kind === "gone";
      if (kind === "end") void this.readState();
      this.settle();
    }
  }

  /**
   * Folds events once for each drawn frame, however many come.
   * @param {HostEvent} event
   */
  queue(event) {
    this.waiting.push(event);
    if (this.waiting.length > 1) return;
    requestAnimationFrame(() => this.folded());
    // A hidden or covered page gets no frames.
    setTimeout(() => this.folded(), document.hidden ? 0 : FRAME_MS);
  }

  /** Returns the state after all events that were received. */
  folded() {
    if (this.waiting.length === 0) return this.host.value;
    const events = this.waiting;
    this.waiting = [];
    let state = this.host.value;
    let isNews = false;
    // Another tab can pass on an event that its snapshot contains already.
    const known = state.next_seq;
    this.warnings.value = withWarnings(this.warnings.value, events.filter((it) => it.seq >= known));
    for (const event of events) {
      if (event.seq < state.next_seq) continue;
      state = fold(state, event);
      isNews ||= !SILENT.includes(event.what.run?.event ?? "");
    }
    this.host.value = state;
    if (isNews) this.settle();
    return state;
  }

  /** Adds the timeline that the stream of another client told. */
  readTimeline() {
    const entries = this.host.value.team.timeline?.entries ?? [];
    this.log.add(entries.slice(this.ofClient));
    this.ofClient = Math.max(this.ofClient, entries.length);
  }

  /** Reads the log and the plans after the current burst of events. */
  settle() {
    if (this.settling !== undefined || this.isStopped) return;
    this.settling = setTimeout(() => {
      this.settling = undefined;
      void this.read();
    }, SETTLE_MS);
  }

  async read() {
    if (this.isReading) {
      this.mustReadAgain = true;
      return;
    }
    this.isReading = true;
    try {
      await Promise.all([this.readLog(), this.readPlans()]);
      this.error.value = "";
    } catch (error) {
      // After its end, a team can be in the archive, where it has another name.
      const isGone = error instanceof Failure && error.status === 404 && this.host.value.outcome;
      this.error.value = isGone ? "" : inWords(error);
    }
    this.isReading = false;
    if (this.mustReadAgain) {
      this.mustReadAgain = false;
      this.settle();
    }
  }

  /**
   * Reads why there are no events: the team is archived, or it is not there. Then another team can
   * have its name.
   */
  async readState() {
    try {
      const { state, archive, archived_at_ms, team } = await get(ofTeam(this.name));
      const isOver = this.isArchived.value || this.link.value === "ended";
      if (isOver && (state === "running" || (this.isArchived.value && state !== "archived"))) {
        this.isAgain.value = true;
        this.stop();
        return;
      }
      if (state === "archived" && archive) {
        this.id = archive;
        this.stop();
        // Nothing waits in the archive, also if the team was deleted while something did.
        if (team) this.host.value = { ...this.host.value, team };
      }
      this.endedAt.value = archived_at_ms ?? null;
      this.isArchived.value = state === "archived";
      this.isOfArchive.value = archive === this.name;
      this.isUnread = state === "stopped";
    } catch (error) {
      if (error instanceof Failure && error.status === 404 && !this.host.value.outcome) {
        this.isArchived.value = true;
        this.link.value = "missing";
      }
      this.error.value = inWords(error);
    }
  }

  async readLog() {
    let from = Math.max(0, this.nextEntry - OVERLAP);
    // The timeline of another client's stream is in the snapshots.
    while (!this.isStopped && this.ofClient === 0) {
      const page = await get(`${ofTeam(this.id, "log")}?from=${from}`);
      if (this.isStopped || !page.entries?.length) return;
      this.log.merge(page.entries);
      from = this.nextEntry = page.next;
      if (page.next >= page.total) return;
    }
  }

  async readPlans() {
    const { plans = [] } = await get(ofTeam(this.id, "plans"));
    if (JSON.stringify(plans) !== JSON.stringify(this.plans.value)) this.plans.value = plans;
  }
}

/** The teams below the root. `null` until they were read. */
export const teams = new Signal(/** @type {TeamSummary[] | null} */ (null));
export const teamsError = new Signal("");

/** The time between two reads of the list of teams, in milliseconds. */
const LIST_MS = 2_000;

/** A long list takes the server longer. The pause is then so many times the time of a read. */
const LIST_PAUSE = 20;

/** The longest pause between two reads, in milliseconds. A read can be slow only once. */
const LIST_MS_MOST = 10_000;

/** The tag of the list that was read last. */
let tag = "";

/** Reads the list of teams. Returns whether a later read can be successful. */
async function readTeams() {
  try {
    const list = await getChanged("/api/teams", tag);
    if (list.data) teams.value = list.data.teams ?? [];
    tag = list.tag;
    teamsError.value = "";
  } catch (error) {
    teamsError.value = inWords(error);
    return !(error instanceof Failure && error.status === 401);
  }
  return true;
}

/** Keeps the list of teams up to date while the page is visible, until the returned function is called. */
export function followTeams() {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let next;
  let isReading = false;
  let isOver = false;
  async function look() {
    clearTimeout(next);
    if (isReading || isOver || document.hidden) return;
    isReading = true;
    const began = performance.now();
    const goesOn = await readTeams();
    isReading = false;
    const longer = Math.min(LIST_MS_MOST, LIST_PAUSE * (performance.now() - began));
    const pause = Math.max(LIST_MS, longer);
    if (goesOn && !isOver) next = setTimeout(look, pause);
  }
  document.addEventListener("visibilitychange", look);
  void look();
  return () => {
    isOver = true;
    clearTimeout(next);
    document.removeEventListener("visibilitychange", look);
  };
}
