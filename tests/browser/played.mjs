// Plays recorded states of a team to the page, in place of the server's answers about one team.
// The states come from the fold of `view`, on the recorded streams of another client.

import { origin } from "./browser.mjs";

/**
 * @param {import("playwright-core").Page} page
 * @param {string} team
 * @param {any[]} states the states one after the other
 * @param {any[]} [log]
 * @param {any[]} [happened] the events after the last state
 */
export async function play(page, team, states, log = [], happened = []) {
  const events = states.map((team, n) =>
    sent("snapshot", { next_seq: n, team, tasks: team.tasks ?? [], questions: [] }),
  );
  const later = happened.map((what, n) =>
    sent("event", { seq: states.length + n, at_ms: 0, what }),
  );
  const body = [...events, ...later, sent("end", team)].join("");
  const api = `${origin}/api/teams/${team}`;
  await page.route(`${api}/events`, (route) =>
    route.fulfill({ contentType: "text/event-stream", body }),
  );
  await page.route(`${api}/log?*`, (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get("from"));
    return route.fulfill({
      json: { entries: log.slice(from), next: log.length, total: log.length },
    });
  });
  await page.route(api, (route) => route.fulfill({ json: { name: team, state: "stopped" } }));
  await page.route(`${api}/plans`, (route) => route.fulfill({ json: { plans: [] } }));
  await page.goto(`${origin}/#/${team}`);
  await page.reload();
}

/**
 * @param {string} event
 * @param {unknown} data
 */
function sent(event, data) {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
