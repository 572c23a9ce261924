// The player of a replay: play and pause, the speed, and a scrubber that a keyboard and a screen
// reader can use.

import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { matcher } from "./log.js";
import { SPEEDS } from "./replaying.js";
import { link, route } from "./route.js";
import { typed, use } from "./signal.js";
import { oneLine, visible } from "./text.js";
import { dateTime, duration } from "./words.js";

/** @typedef {import("./replaying.js").ReplayStore} ReplayStore */

/** The part of the whole run by which Page Up and Page Down move. */
const PAGE = 0.05;

/** How long the page says that a link was copied, in milliseconds. */
const SAID_MS = 6_000;

/** @param {{store: ReplayStore}} props */
export function Player({ store }) {
  const [now, to] = [use(store.now), use(store.to)];
  const [isPlaying, speed] = [use(store.isPlaying), use(store.speed)];
  const [isLive, isFollowing] = [use(store.isLive), use(store.isFollowing)];
  const _drawnAgain = use(store.log.version);
  const skipped = use(store.skipped);
  const { from, isClock, isEmpty } = store.recording;
  const time = isEmpty ? nothing(isLive) : timeOf(store, now);
  const entry = store.log.entries.findLast(matcher(use(store.filter)));
  const event = entry ? `${visible(entry.agent ?? "team")}: ${oneLine(entry.text, 200)}` : "";
  return html`<section class="player" aria-label="Player">
    <input type="range" aria-label="Moment" min="0" max=${Math.max(1, to - from)} step="1"
      value=${now - from} disabled=${isEmpty} aria-valuetext=${event ? `${time}, ${event}` : time}
      onInput=${typed((value) => store.seek(from + Number(value)))}
      onKeyDown=${(/** @type {KeyboardEvent} */ key) => pressed(store, key)} />
    <div class="line">
      <button aria-label="Previous entry" disabled=${isEmpty} onClick=${() => store.toNeighbour(-1)}>⇤</button>
      <button class="play" disabled=${isEmpty}
        onClick=${() => store.toggle()}>${isPlaying ? "Pause" : "Play"}</button>
      <button aria-label="Next entry" disabled=${isEmpty} onClick=${() => store.toNeighbour(1)}>⇥</button>
      <label>Speed <select value=${String(speed)}
        onChange=${typed((value) => (store.speed.value = Number(value)))}>${SPEEDS.map((factor) =>
          html`<option key=${factor} value=${String(factor)}>${factor}x</option>`)}</select></label>
      ${isLive && (isClock || !store.recording.isFinished) && html`<button class="quiet"
        aria-pressed=${isFollowing} onClick=${() => store.follow()}>Follow</button>`}
      <span class="time"><time>${time}</time>${!isEmpty && html` <span class="note">of ${
        timeOf(store, to).replace(/^line /, "")}</span>`} <span class="note" role="status">${
        skipped > 0 && `skips ${duration(skipped)}`}</span></span>
      ${!isEmpty && html`<${CopyLink} store=${store} />`}
    </div>
    <p class="note event">${event}</p>
  </section>`;
}

/**
 * Says why there is no moment.
 * @param {boolean} isLive
 */
function nothing(isLive) {
  return isLive ? "waiting for the first line" : "nothing was recorded";
}

/**
 * Returns a time in words: the time of day and how long after the beginning, or the line.
 * @param {ReplayStore} store
 * @param {number} ms
 */
function timeOf({ recording }, ms) {
  if (!recording.isClock) return `line ${Math.floor(ms / 1_000)}`;
  return `${dateTime(ms)} (+${duration(Math.max(0, ms - recording.from))})`;
}

/**
 * @param {ReplayStore} store
 * @param {KeyboardEvent} event
 */
function pressed(store, event) {
  const { recording, now } = store;
  const page = (recording.to - recording.from) * PAGE;
  /** @type {Record<string, () => void>} */
  const actions = {
    ArrowRight: () => store.toNeighbour(1),
    ArrowUp: () => store.toNeighbour(1),
    ArrowLeft: () => store.toNeighbour(-1),
    ArrowDown: () => store.toNeighbour(-1),
    PageUp: () => store.seek(now.value + page),
    PageDown: () => store.seek(now.value - page),
    Home: () => store.seek(recording.from),
    End: () => store.seek(recording.to),
    " ": () => store.toggle(),
  };
  const action = actions[event.key];
  if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  action();
}

/** @param {{store: ReplayStore}} props */
function CopyLink({ store }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const gone = setTimeout(() => setSaid(""), SAID_MS);
    return () => clearTimeout(gone);
  }, [said]);
  async function copy() {
    const { view, name } = route.value;
    const hash = link(store.name, view === "team" && name === "" ? "" : view, name);
    const address = `${location.href.split("#")[0]}${hash}?at=${Math.round(store.now.value)}`;
    try {
      await navigator.clipboard.writeText(address);
      setSaid("Copied.");
    } catch {
      // The browser gives no access to the clipboard, as for a file.
      setSaid(address);
    }
  }
  return html`<button class="quiet" onClick=${copy}>Copy link to this moment</button>
    <span class="said" role="status">${said}</span>`;
}
