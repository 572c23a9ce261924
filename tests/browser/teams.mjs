// The list of teams: it follows what happens while it is visible.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, origin } from "./browser.mjs";

/**
 * Says whether the page is hidden. A headless browser shows all its pages.
 * @param {import("playwright-core").Page} page
 * @param {boolean} isHidden
 */
function hide(page, isHidden) {
  return page.evaluate((isHidden) => {
    Object.defineProperty(document, "hidden", { get: () => isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
}

/**
 * Lets the time of the page pass until something is shown.
 * @param {import("playwright-core").Locator} shown
 */
async function until(shown) {
  while (!(await shown.isVisible())) await shown.page().clock.runFor(1_000);
}

test("the list of teams follows while it is visible, and an equal list is not sent again", async () => {
  const { page, context, errors } = await open();
  await page.clock.install();
  const isList = (/** @type {{url(): string}} */ it) => it.url().endsWith("/api/teams");
  let reads = 0;
  page.on("request", (request) => isList(request) && (reads += 1));
  /** @type {number[]} */
  const statuses = [];
  page.on("response", (response) => isList(response) && statuses.push(response.status()));
  await page.goto(`${origin}/#/`);
  await page.getByRole("link", { name: /^work/ }).waitFor();
  while (!statuses.includes(304)) await page.clock.runFor(1_000);

  await hide(page, true);
  const before = reads;
  await page.clock.runFor(600_000);
  assert.equal(reads, before, "a hidden page reads nothing");

  const teams = [{ name: "another", state: "running", members: ["team-lead"] }];
  await page.route("**/api/teams", (route) => route.fulfill({ json: { teams } }));
  await hide(page, false);
  await page.getByRole("region", { name: "Running" }).getByText("another").waitFor();
  teams.push({ name: "later", state: "stopped", members: [] });
  await until(page.getByRole("region", { name: "Stopped" }).getByText("later"));
  assert.deepEqual(errors, []);

  // The list says that the server is away, and goes on when the server is back.
  await page.unroute("**/api/teams");
  await page.route("**/api/teams", (route) => route.abort());
  await until(page.getByRole("alert").getByText("the server does not answer"));
  await page.unroute("**/api/teams");
  await until(page.getByRole("link", { name: /^work/ }));
  assert.equal(await page.getByRole("alert").count(), 0);
  await context.close();
});
