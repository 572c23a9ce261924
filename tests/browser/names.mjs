// Agents, tasks, calls and models with the names of what every object of JavaScript has. A page that
// looks for them in a plain object finds something else.

import assert from "node:assert/strict";

export const NAMES = ["constructor", "__proto__", "toString", "hasOwnProperty"];

/**
 * Checks the cards, the timeline and the conversations of a page with these agents.
 * @param {import("playwright-core").Page} page
 * @param {string} address the address of the team's view
 */
export async function agentsAreShown(page, address) {
  for (const name of NAMES) await page.getByRole("article", { name, exact: true }).waitFor();
  await page.goto(`${address}/timeline`);
  const count = page.getByLabel("Number of entries");
  await page.getByRole("listbox").waitFor();
  const all = Number(await count.innerText());
  for (const name of NAMES) {
    await page.getByRole("searchbox").fill(`@${name.toLowerCase()}`);
    await page.waitForFunction(
      (all) => Number(document.querySelector(".filter .note")?.textContent) < all,
      all,
    );
    assert.ok(Number(await count.innerText()) > 0, `entries about ${name}`);
    await page.getByRole("searchbox").fill("");
  }
  for (const name of NAMES) {
    await page.goto(`${address}/member/${name}`);
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.getByRole("region", { name: "Conversation" }).waitFor();
  }
  await page.goto(address);
}
