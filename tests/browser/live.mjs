// Follows a team that runs, from its first request to its end: what a person does at the page
// reaches the agents, and what they do is on the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { given, open, origin, violationsInBothThemes } from "./browser.mjs";
import { DEVICE, PATIENCE, approved, isTouch, press, readTo, shot, swipe, view } from "./steps.mjs";

test(`a person leads a team from the page of a ${given.device}`, { timeout: 180_000 }, async () => {
  const { page, context, errors } = await open(DEVICE);
  page.setDefaultTimeout(PATIENCE);
  await page.goto(`${origin}/#/`);
  await press(page.getByRole("link", { name: /^work/ }));
  await cardsAppear(page);
  await aLongCallIsReadBeforeItIsAllowed(page);
  await aPlanIsSentBackAndThenApproved(page);
  await theGraphMoves(page);
  await aMessageReachesAnAgentAtWork(page);
  await aCommentIsAnswered(page);
  await theStateIsThatOfTheServer(page);
  // After the end, the browser reports that the team has left its place for the archive.
  assert.deepEqual(errors, []);
  await theTeamEnds(page);
  await theArchiveShowsIt(page);
  await context.close();
});

/** @typedef {import("playwright-core").Page} Page */

/** @param {Page} page */
async function cardsAppear(page) {
  for (const name of ["team-lead", "bob", "wanda"]) {
    await page.getByRole("article", { name, exact: true }).waitFor();
  }
  await page.locator(".card.input", { hasText: "bob" }).waitFor();
  for (const [name, limit] of [
    ["bob", 900],
    ["wanda", 300],
  ]) {
    const card = page.getByRole("article", { name: `${name}`, exact: true });
    await card.getByText(new RegExp(`^\\d+ turns? \\(limit ${limit}\\)`)).waitFor();
  }
  assert.match(await page.locator(".totals").innerText(), /\$0\.00 \(limit \$5\.00\)/);
  await shot(page, "team");
  assert.deepEqual(await violationsInBothThemes(page), []);
}

/** @param {Page} page */
async function aLongCallIsReadBeforeItIsAllowed(page) {
  const question = page.getByRole("article", { name: /bob asks permission for Write/ });
  await question.waitFor();
  const allow = question.getByRole("button", { name: "Allow once" });
  const call = question.getByRole("region", { name: "The whole call" });
  assert.equal(await allow.getAttribute("aria-disabled"), "true");
  // The page does not take a click in the first moment of a request.
  await page.waitForTimeout(700);
  await press(allow, { force: true });
  await question.getByText("was not on the screen yet").waitFor();
  // The end alone is not enough: the middle was not on the screen.
  await call.evaluate(readTo, [Number.MAX_SAFE_INTEGER]);
  assert.equal(await allow.getAttribute("aria-disabled"), "true");
  const height = await call.evaluate((it) => it.scrollHeight);
  const tops = Array.from({ length: Math.ceil(height / 100) }, (_, n) => n * 100);
  await call.evaluate(readTo, tops);
  const ready = question.locator('button.yes[aria-disabled="false"]');
  await ready.waitFor();
  if (isTouch) await swipe(page, question);
  else await ready.click();
  await question.waitFor({ state: "detached" });
}

/** @param {Page} page */
async function aPlanIsSentBackAndThenApproved(page) {
  await view(page, "Plans");
  const plan = page.getByRole("article", { name: /wanda asks to approve its plan/ });
  await plan.getByText("Plan A").waitFor();
  await shot(page, "plan");
  await press(plan.getByRole("button", { name: "Send back with remarks" }));
  await plan.getByText("Write what must change").waitFor();
  await plan.getByRole("textbox").fill("Please take smaller steps.");
  await press(plan.getByRole("button", { name: "Send back with remarks" }));
  await plan.getByText("Plan B").waitFor();
  await approved(plan);
}

/** @param {Page} page */
async function theGraphMoves(page) {
  await view(page, "Tasks");
  await page.locator(".node.completed", { hasText: "Write the notes" }).waitFor();
  await page.locator(".node.pending", { hasText: "Read the notes" }).waitFor();
  await page.locator(".edge.done").waitFor({ state: "attached" });
  await shot(page, "tasks");
  assert.deepEqual(await violationsInBothThemes(page), []);
}

/** @param {Page} page */
async function aMessageReachesAnAgentAtWork(page) {
  await view(page, /^Team/);
  await page.locator(".card.working", { hasText: "bob" }).waitFor();
  await press(page.getByRole("button", { name: "Message bob" }));
  await page.keyboard.type("hello from the page");
  await page.keyboard.press("Enter");
  await page.getByText("Sent to bob.").waitFor();
  await view(page, "Timeline");
  const heard = page.getByRole("option", { name: /bob.*writes to team-lead: I hear the page/s });
  await heard.waitFor();
}

/** @param {Page} page */
async function aCommentIsAnswered(page) {
  await view(page, "Review");
  await press(page.getByRole("navigation", { name: "Members" }).getByRole("link", { name: "bob" }));
  await press(page.getByRole("button", { name: "Comment on added line 2", exact: true }));
  await page.getByRole("textbox", { name: "Comment for bob" }).fill("Why this line?");
  await shot(page, "review");
  assert.deepEqual(await violationsInBothThemes(page), []);
  await press(page.getByRole("button", { name: "Send the comment" }));
  await view(page, "Timeline");
  await page.getByRole("option", { name: /the comment is answered/ }).waitFor();
  await page.locator(".to-team", { hasText: "We are done." }).waitFor();
}

/**
 * The page folds the events itself. The result is that of the server.
 * @param {Page} page
 */
async function theStateIsThatOfTheServer(page) {
  await view(page, /^Team/);
  await page.locator(".card.idle", { hasText: "wanda" }).waitFor();
  // bob works on meanwhile, so one of the two can be ahead for a moment.
  let [ours, theirs] = await bothStates(page);
  for (let n = 0; n < 20 && !isDeepStrictEqual(ours, theirs); n += 1) {
    await page.waitForTimeout(100);
    [ours, theirs] = await bothStates(page);
  }
  assert.deepEqual(ours, theirs);
}

/**
 * Returns what the cards show of each agent, and what the server says.
 * @param {Page} page
 */
function bothStates(page) {
  return page.evaluate(async () => {
    const { team } = await (await fetch("/api/teams/work")).json();
    /** @param {Element} card @param {string} part */
    const text = (card, part) => card.querySelector(part)?.textContent ?? null;
    /** @type {any[]} */
    const ours = [...document.querySelectorAll(".card")].map((card) => [
      card.getAttribute("aria-label"),
      text(card, ".color"),
      card.querySelector(".model")?.getAttribute("title") ?? null,
      text(card, ".mode"),
      Number.parseInt(text(card, "footer span") ?? "", 10),
    ]);
    /** @type {any[]} */
    const theirs = team.agents.map((/** @type {any} */ agent) => [
      agent.name,
      agent.color,
      agent.model,
      agent.mode,
      agent.turns,
    ]);
    return [ours.sort(), theirs.sort()];
  });
}

/** @param {Page} page */
async function theTeamEnds(page) {
  await page.getByRole("combobox", { name: /^To/ }).selectOption("team-lead");
  await page.getByRole("textbox", { name: "Message" }).fill("go home");
  await press(page.getByRole("button", { name: "Send", exact: true }));
  const summary = page.getByRole("region", { name: "Session summary" });
  await summary.waitFor();
  assert.match(await summary.innerText(), /completed.*The notes are written and read\./s);
  await shot(page, "summary");
  assert.deepEqual(await violationsInBothThemes(page), []);
}

/** @param {Page} page */
async function theArchiveShowsIt(page) {
  await press(page.getByRole("link", { name: "Teams" }));
  await press(page.getByRole("region", { name: "Archived" }).getByRole("link", { name: /^work/ }));
  await page.locator(".top .state", { hasText: /^archived .*\d\d:\d\d/ }).waitFor();
  // The address has the id of the archive, and the page says the name.
  assert.match(page.url(), /#\/work-\d+/);
  assert.equal(await page.locator(".top .name").textContent(), "work");
  assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "Team work");
  await page.getByRole("region", { name: "Session summary" }).getByText("completed").waitFor();
  await page.getByRole("article", { name: "bob", exact: true }).waitFor();
  assert.equal(await page.getByRole("form", { name: "Message" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: /^Message/ }).count(), 0);
}
