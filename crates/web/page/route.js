// The address of a view: #/TEAM/VIEW/NAME. Every view has an address, so that links and the
// browser's own keys lead to it.

import { Signal } from "./signal.js";

/** The views of a team with their titles, in the order of the navigation. */
export const VIEWS = /** @type {const} */ ([
  ["team", "Team"],
  ["tasks", "Tasks"],
  ["timeline", "Timeline"],
  ["plans", "Plans"],
  ["review", "Review"],
]);

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parse(hash) {
  const [team = "", view = "", name = ""] = hash.replace(/^#\/?/, "").split("/").map(decoded);
  return { team, view: view || "team", name };
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
  const parts = [team, view, name].filter((part) => part !== "");
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** The view that the address names. */
export const route = new Signal(parse(location.hash));

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});
