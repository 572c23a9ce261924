// Follows a team that runs, from its first request to its end: what a person does at the page
// reaches the agents, and what they do is on the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DESK, PHONE, open, origin, shot, violations } from "./browser.mjs";

/** The page must show an answer of the agents within this time, in milliseconds. */
const PATIENCE = 30_000;

test("a person leads a team from the page", { timeout: 180_000 }, async () => {
  const { page, context, errors } = await open(DESK);
  page.setDefaultTimeout(PATIENCE);
  await page.goto(`${origin}/#/`);
  await page.getByRole("link", { name: /^work/ }).click();
  await cardsAppear(page);
  await aLongCallIsReadBeforeItIsAllowed(page);
  await aPlanIsSentBackAndThenApproved(page);
  await theGraphMoves(page);
  await aMessageReachesAnAgentAtWork(page);
  await aCommentIsAnswered(page);
  await theStateIsThatOfTheServer(page);
  await theTeamEnds(page);
  assert.deepEqual(errors, []);
  await context.close();
});

/** @typedef {import("playwright-core").Page} Page */

/**
 * @param {Page} page
 * @param {string | RegExp} name
 */
function view(page, name) {
  return page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }).click();
}

/** @param {Page} page */
async function cardsAppear(page) {
  for (const name of ["team-lead", "bob", "wanda"]) {
    await page.getByRole("article", { name, exact: true }).waitFor();
  }
  await page.locator(".card.input", { hasText: "bob" }).waitFor();
  await shot(page, "team");
  assert.deepEqual(await violations(page), []);
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
  await allow.click({ force: true });
  await question.getByText("was not on the screen yet").waitFor();
  // The end alone is not enough: the middle was not on the screen.
  await call.evaluate((it) => it.scrollTo(0, it.scrollHeight));
  await page.waitForTimeout(200);
  assert.equal(await allow.getAttribute("aria-disabled"), "true");
  const height = await call.evaluate((it) => it.scrollHeight);
  for (let top = 0; top < height; top += 100) {
    await call.evaluate((it, top) => it.scrollTo(0, top), top);
    await page.waitForTimeout(30);
  }
  await question.locator('button.yes[aria-disabled="false"]').click();
  await question.waitFor({ state: "detached" });
}

/** @param {Page} page */
async function aPlanIsSentBackAndThenApproved(page) {
  await view(page, "Plans");
  const plan = page.getByRole("article", { name: /wanda asks to approve its plan/ });
  await plan.getByText("Plan A").waitFor();
  await shot(page, "plan");
  await plan.getByRole("button", { name: "Send back with remarks" }).click();
  await plan.getByText("Write what must change").waitFor();
  await plan.getByRole("textbox").fill("Please take smaller steps.");
  await plan.getByRole("button", { name: "Send back with remarks" }).click();
  await plan.getByText("Plan B").waitFor();
  await plan.locator('button.yes[aria-disabled="false"]').click();
  await plan.waitFor({ state: "detached" });
  await page.getByText("wanda · rejected").waitFor();
  await page.getByText("wanda · approved").waitFor();
}

/** @param {Page} page */
async function theGraphMoves(page) {
  await view(page, "Tasks");
  await page.locator(".node.completed", { hasText: "Write the notes" }).waitFor();
  await page.locator(".node.pending", { hasText: "Read the notes" }).waitFor();
  await page.locator(".edge.done").waitFor({ state: "attached" });
  await shot(page, "tasks");
  assert.deepEqual(await violations(page), []);
}

/** @param {Page} page */
async function aMessageReachesAnAgentAtWork(page) {
  await view(page, /^Team/);
  await page.locator(".card.working", { hasText: "bob" }).waitFor();
  await page.getByRole("button", { name: "Message bob" }).click();
  await page.keyboard.type("hello from the page");
  await page.keyboard.press("Enter");
  await page.getByText("Sent to bob.").waitFor();
  const heard = page.getByRole("option", { name: /bob.*writes to team-lead: I hear the page/s });
  await heard.waitFor();
}

/** @param {Page} page */
async function aCommentIsAnswered(page) {
  await view(page, "Review");
  await page.getByRole("navigation", { name: "Members" }).getByRole("link", { name: "bob" }).click();
  await page.getByRole("button", { name: "Comment on added line 2", exact: true }).click();
  await page.getByRole("textbox", { name: "Comment for bob" }).fill("Why this line?");
  await shot(page, "review");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("button", { name: "Send the comment" }).click();
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
  await page.waitForTimeout(300);
  const shown = await page.evaluate(async () => {
    const fields = ["name", "status", "color", "model", "mode", "turns", "tool_calls", "task"];
    /** @param {any} agent */
    const of = (agent) => fields.map((field) => agent[field] ?? null);
    const cards = [...document.querySelectorAll(".card")].map((card) => ({
      name: card.getAttribute("aria-label"),
      numbers: card.querySelector("footer span")?.textContent,
      mode: card.querySelector(".mode")?.textContent,
      color: card.querySelector(".color")?.textContent ?? null,
    }));
    const { team } = await (await fetch("/api/teams/work")).json();
    return { cards, agents: team.agents.map(of) };
  });
  for (const [name, , color, , mode, turns] of shown.agents) {
    const card = shown.cards.find((card) => card.name === name);
    assert.ok(card, name);
    assert.deepEqual([card.color, card.mode], [color, mode], name);
    assert.ok(card.numbers?.startsWith(`${turns} turn`), `${name}: ${card.numbers}, ${turns} turns`);
  }
}

/** @param {Page} page */
async function theTeamEnds(page) {
  await page.getByRole("combobox", { name: /^To/ }).selectOption("team-lead");
  await page.getByRole("textbox", { name: "Message" }).fill("go home");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  const summary = page.getByRole("region", { name: "Run summary" });
  await summary.waitFor();
  assert.match(await summary.innerText(), /success.*The notes are written and read\./s);
  await shot(page, "summary");
  assert.deepEqual(await violations(page), []);
  await page.setViewportSize(PHONE.viewport);
  await shot(page, "summary-narrow");
}
