// Follows the events of a team. All tabs of a browser share one connection: the tab that holds the
// lock has the EventSource and passes each event on to the others. If it closes, the lock goes to
// another tab, which connects and gets a new snapshot. A tab whose team is archived stops following it:
// a later team can have its name, and a tab that opens then must not get the state of the earlier one.

import { ofTeam } from "./api.js";

/** @typedef {(kind: StreamKind, data: any) => void} Receive */

const KINDS = /** @type {const} */ (["snapshot", "event", "silent", "gone", "end"]);

/**
 * Follows a team until the returned function is called.
 * @param {string} team
 * @param {Receive} receive
 * @param {() => HostState} current the state that a tab gets that has just opened
 * @returns {() => void}
 */
export function follow(team, receive, current) {
  const name = `pitcrew events ${team}`;
  const channel = new BroadcastChannel(name);
  const stopped = new AbortController();
  let isConnected = false;
  /** The latest news about the connection. @type {any} */
  let latest = null;
  const stop = () => {
    stopped.abort();
    channel.close();
  };
  channel.onmessage = ({ data }) => {
    if (data.kind === "ask" && isConnected) {
      channel.postMessage({ kind: "state", state: current() });
      channel.postMessage(latest);
    } else if (data.kind === "state") {
      if (!isConnected) receive("snapshot", data.state);
    } else if (KINDS.includes(data.kind) || data.kind === "link") {
      receive(data.kind, data.data);
    }
  };
  channel.postMessage({ kind: "ask" });
  const connected = () =>
    connect(team, stopped.signal, (kind, data) => {
      isConnected ||= kind === "snapshot";
      const isNews = kind === "event" || kind === "snapshot";
      latest = isNews ? { kind: "link", data: "live" } : { kind, data };
      receive(kind, data);
      channel.postMessage({ kind, data });
    });
  navigator.locks.request(name, { signal: stopped.signal }, connected).catch(() => {});
  return stop;
}

/**
 * Connects to the server until the signal. Returns a promise that keeps the lock until then.
 * @param {string} team
 * @param {AbortSignal} signal
 * @param {Receive} receive
 * @returns {Promise<void>}
 */
function connect(team, signal, receive) {
  return new Promise((resolve) => {
    const source = new EventSource(ofTeam(team, "events"));
    const stop = () => {
      source.close();
      resolve();
    };
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        const data = read(/** @type {MessageEvent} */ (event).data);
        if (data !== undefined) receive(kind, data);
        // The state of a team that does not run stays as it is.
        if (kind === "end") source.close();
      });
    }
    source.onopen = () => receive("link", "live");
    source.onerror = () => {
      const isOver = source.readyState === EventSource.CLOSED;
      receive("link", isOver ? "lost" : "connecting");
    };
  });
}

/** @param {string} text */
function read(text) {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return undefined;
  }
}
