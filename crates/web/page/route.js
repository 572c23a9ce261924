// The address of a view: #/TEAM/VIEW/NAME, or #/replay/TEAM/VIEW/NAME?at=MS for a moment of a replay.
// Every view has an address, so that links and the browser's own keys lead to it.

import { Signal } from "./signal.js";

/** The views of a team with their titles, in the order of the navigation. */
export const VIEWS = /** @type {const} */ ([
  ["team", "Team"],
  ["tasks", "Tasks"],
  ["timeline", "Timeline"],
  ["plans", "Plans"],
  ["review", "Review"],
]);

/** The beginning of the name of a replay. The name of a team has no slash. */
export const REPLAY = "replay/";

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parse(hash) {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const isReplay = path.startsWith(REPLAY) && path !== REPLAY;
  const parts = path.slice(isReplay ? REPLAY.length : 0).split("/").map(decoded);
  const [team = "", named = "", name = ""] = parts;
  const view = VIEWS.some(([id]) => id === named) || named === "member" ? named : "team";
  const at = /^at=(\d{1,15})$/.exec(query);
  return {
    team: isReplay ? REPLAY + team : team,
    view,
    name: view === named ? name : "",
    at: at ? Number(at[1]) : null,
  };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * @param {string} [team]
 * @param {string} [view]
 * @param {string} [name]
 */
export function link(team = "", view = "", name = "") {
  const [, replay = "", of = ""] = /^(replay\/)?(.*)$/s.exec(team) ?? [];
  const parts = [of, view, name].filter((part) => part !== "").map(encodeURIComponent);
  // A team can have the name that begins the address of a replay.
  if (!replay && parts[0] === "replay") parts[0] = "%72eplay";
  return `#/${replay}${parts.join("/")}`;
}

/** The view that the address names. */
export const route = new Signal(parse(location.hash));

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});
