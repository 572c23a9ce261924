// A replay that a person plays: the moment that is shown, and how fast it moves on. It has the
// signals of a team that the page follows, so the same components show it.

import { EMPTY } from "./fold.js";
import { ALL, Log, matcher } from "./log.js";
import { Recording } from "./moment.js";
import { Signal } from "./signal.js";

/** The speeds, as factors. */
export const SPEEDS = [1, 2, 5, 10, 50, 100];

/** How long the page prepares moments before it does something else, in milliseconds. */
const PREPARE_MS = 12;

/** A pause is played for at most this time, in milliseconds. */
const PAUSE_MOST_MS = 5_000;

/** How much of a pause is played if the rest is skipped, in milliseconds. */
const PAUSE_PLAYED_MS = 1_000;

/** The time between two moments if a person wants little motion, in milliseconds. */
const CALM_MS = 500;

/** A replay. */
export class ReplayStore {
  /**
   * @param {string} name the first part of the addresses of its views
   * @param {Recorded} replay
   * @param {number | null} at the time that is shown first, or `null` for the end
   */
  constructor(name, replay, at) {
    this.isReplay = /** @type {const} */ (true);
    this.name = name;
    this.replay = replay;
    this.recording = new Recording(replay);
    this.host = new Signal(EMPTY);
    this.link = new Signal(/** @type {Link} */ ("ended"));
    this.plans = new Signal(/** @type {Plan[]} */ ([]));
    this.error = new Signal("");
    this.isArchived = new Signal(true);
    this.log = new Log();
    /** Which entries the timeline shows. The others are stepped over. */
    this.filter = new Signal(/** @type {Filter} */ (ALL));
    this.now = new Signal(this.recording.from);
    this.to = new Signal(this.recording.to);
    this.isPlaying = new Signal(false);
    this.speed = new Signal(1);
    /** The length of the pause that *Play* has just skipped, in milliseconds. */
    this.skipped = new Signal(0);
    /** Whether more events can come: from a pipe, or from a file that grows. */
    this.isLive = new Signal(Boolean(replay.is_live));
    /** Whether events have come since the replay was opened. */
    this.hasGrown = new Signal(false);
    /** Whether the last moment is shown, also when more events come. */
    this.isFollowing = new Signal(this.isLive.value && at === null);
    this.at = at;
    this.count = -1;
    this.isClosed = false;
    /** The frame in which the next moment is shown. */
    this.frame = 0;
    this.seek(at ?? this.recording.to);
    this.prepare();
  }

  close() {
    this.isClosed = true;
    this.pause();
  }

  /** Keeps moments while the page has nothing else to do, so that each jump is short. */
  prepare() {
    if (this.isClosed || !this.recording.prepare(PREPARE_MS)) return;
    setTimeout(() => this.prepare(), 0);
  }

  /**
   * Adds events that have just come.
   * @param {TimedEvent[]} events
   */
  add(events) {
    const wasEmpty = this.recording.isEmpty;
    this.recording.add(events);
    this.hasGrown.value = true;
    this.to.value = this.recording.to;
    if (this.isFollowing.value) this.show(this.recording.to);
    else if (wasEmpty) this.seek(this.at ?? this.recording.to);
  }

  /**
   * Shows the moment at a time.
   * @param {number} ms
   */
  show(ms) {
    const { recording, log } = this;
    this.now.value = Math.min(recording.to, Math.max(recording.from, ms));
    const count = recording.countAt(this.now.value);
    if (count === this.count) return;
    this.count = count;
    const { host, entries, mail, banner, end } = recording.moment(count);
    log.entries = recording.entries.slice(0, entries);
    log.mail.value = mail;
    log.banner.value = banner;
    log.end.value = end;
    this.host.value = host;
    log.version.value += 1;
  }

  /**
   * Shows the moment at a time that a person chose. The end of a live replay is followed.
   * @param {number} ms
   */
  seek(ms) {
    this.show(ms);
    const { isEmpty, to } = this.recording;
    if (!isEmpty) this.isFollowing.value = this.isLive.value && this.now.value >= to;
  }

  /** @param {1 | -1} step */
  toNeighbour(step) {
    const isShown = matcher(this.filter.value);
    this.seek(this.recording.neighbour(this.now.value, step, isShown));
  }

  follow() {
    this.pause();
    this.isFollowing.value = true;
    this.show(this.recording.to);
  }

  toggle() {
    if (this.isPlaying.value) this.pause();
    else this.play();
  }

  pause() {
    if (this.isPlaying.value) cancelAnimationFrame(this.frame);
    this.isPlaying.value = false;
    this.skipped.value = 0;
  }

  /**
   * Plays some time. The rest of a long pause is skipped.
   * @param {number} ms
   */
  playOn(ms) {
    const { now, recording, skipped } = this;
    const speed = this.speed.value;
    const rest = recording.timeAfter(now.value) - now.value;
    if (rest > PAUSE_MOST_MS * speed) {
      skipped.value = rest - PAUSE_PLAYED_MS * speed;
      this.show(now.value + skipped.value);
      return;
    }
    if (ms >= rest) skipped.value = 0;
    this.show(now.value + ms);
  }

  play() {
    if (this.now.value >= this.recording.to) this.seek(this.recording.from);
    this.isPlaying.value = true;
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let last = performance.now();
    /** @param {number} time */
    const tick = (time) => {
      if (time - last >= (isCalm ? CALM_MS : 0)) {
        this.playOn(Math.max(0, time - last) * this.speed.value);
        last = time;
      }
      if (this.now.value < this.recording.to) {
        this.frame = requestAnimationFrame(tick);
        return;
      }
      this.pause();
      this.seek(this.recording.to);
    };
    this.frame = requestAnimationFrame(tick);
  }

  /**
   * Returns the conversation of an agent at this moment.
   * @param {string} agent
   */
  parts(agent) {
    return this.recording.parts(agent, this.count);
  }
}
