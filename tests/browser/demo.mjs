// A person leads the team of `pitcrew demo --serve` from the page: from the first card to the
// summary, with a plan, a message, a review and a permission.

import assert from "node:assert/strict";
import { test } from "node:test";
import { given, open, origin, violationsInBothThemes } from "./browser.mjs";
import { DEVICE, PATIENCE, approved, press, shot, view } from "./steps.mjs";

/** @typedef {import("playwright-core").Page} Page */

const REMARK = "Name the function that counts.";

test(`a person leads the demo from the page of a ${given.device}`, { timeout: 180_000 }, async () => {
  const { page, context, errors } = await open(DEVICE);
  page.setDefaultTimeout(PATIENCE);
  await page.goto(`${origin}/#/`);
  // The server is there before the team.
  await press(page.getByRole("link", { name: /^demo/ }));
  for (const name of ["team-lead", "bob", "wanda", "cleo"]) {
    await page.getByRole("article", { name, exact: true }).waitFor();
  }
  await shot(page, "demo-team");
  await thePlanIsSentBackAndThenApproved(page);
  await taskIs(page, "in_progress", "Mend slug");
  await aMessageReachesBobAtWork(page);
  await aCommentIsAnswered(page);
  await taskIs(page, "completed", "Mend slug");
  await page.locator(".edge.done").first().waitFor({ state: "attached" });
  await shot(page, "demo-tasks");
  await aCallIsAllowed(page);
  assert.deepEqual(errors, []);
  await theRunEnds(page);
  await context.close();
});

/** @param {Page} page */
async function thePlanIsSentBackAndThenApproved(page) {
  await view(page, "Plans");
  const plan = page.getByRole("article", { name: /wanda asks to approve its plan/ });
  await plan.getByText("chars().count()").waitFor();
  assert.equal(await page.locator(".count").textContent(), "1 waiting", "one plan waits");
  await shot(page, "demo-plan");
  assert.deepEqual(await violationsInBothThemes(page), []);
  await plan.getByRole("textbox").fill(REMARK);
  await press(plan.getByRole("button", { name: "Send back with remarks" }));
  await plan.getByText(`Heed the remarks on the plan before: ${REMARK}`).waitFor();
  await approved(plan);
}

/**
 * @param {Page} page
 * @param {string} state
 * @param {string} subject
 */
async function taskIs(page, state, subject) {
  await view(page, "Tasks");
  await page.locator(`.node.${state}`, { hasText: subject }).waitFor();
}

/** @param {Page} page */
async function aMessageReachesBobAtWork(page) {
  await view(page, /^Team/);
  await page.locator(".card.working", { hasText: "bob" }).waitFor();
  await press(page.getByRole("button", { name: "Message bob" }));
  await page.keyboard.type("how far are you?");
  await page.keyboard.press("Enter");
  await page.getByText("Sent to bob.").waitFor();
  await view(page, "Timeline");
  await page.getByRole("option", { name: /bob.*writes to team-lead: I have read the message/s }).waitFor();
}

/** @param {Page} page */
async function aCommentIsAnswered(page) {
  await view(page, "Review");
  await press(page.getByRole("navigation", { name: "Members" }).getByRole("link", { name: "bob" }));
  const line = page.getByRole("button", { name: /^Comment on added line/ });
  await press(line.first());
  await page.getByRole("textbox", { name: "Comment for bob" }).fill("Why these characters?");
  await shot(page, "demo-review");
  assert.deepEqual(await violationsInBothThemes(page), []);
  await press(page.getByRole("button", { name: "Send the comment" }));
  await view(page, "Timeline");
  await page.getByRole("option", { name: /the review is answered|comment on my change/ }).waitFor();
}

/** @param {Page} page */
async function aCallIsAllowed(page) {
  await view(page, /^Team/);
  const question = page.getByRole("article", { name: /cleo asks permission for Bash/ });
  await question.getByText("cargo fmt --check").waitFor();
  await shot(page, "demo-permission");
  assert.deepEqual(await violationsInBothThemes(page), []);
  const tooWide = await page.locator(".cards > li").evaluateAll((all) =>
    all.filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.textContent),
  );
  assert.deepEqual(tooWide, [], "no card covers the next one");
  // The page does not take a click in the first moment of a request. The next click answers it.
  const allow = question.locator('button.yes[aria-disabled="false"]');
  while (await question.isVisible()) {
    await press(allow, { timeout: 2_000 }).catch(() => {});
  }
}

/** @param {Page} page */
async function theRunEnds(page) {
  const summary = page.getByRole("region", { name: "Session summary" });
  await summary.waitFor();
  assert.match(await summary.innerText(), /completed.*the whole suite passes\./s);
  await shot(page, "demo-summary");
  assert.deepEqual(await violationsInBothThemes(page), []);
  await press(page.getByRole("link", { name: "Teams" }));
  await press(page.getByRole("region", { name: "Archived" }).getByRole("link", { name: /^demo/ }));
  await page.locator(".top .state", { hasText: "archived" }).waitFor();
}
