// Replays: `pitcrew view` of recorded streams, of a live pipe and of a team, and the replay of a
// team on the page of all teams. The Rust test `browser_replay.rs` makes the streams and the team.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { DESK, PHONE, given, open, origin, shot, violations } from "./browser.mjs";
import { NAMES, agentsAreShown } from "./names.mjs";

/** @typedef {import("playwright-core").Page} Page */

/** @type {import("node:child_process").ChildProcess[]} */
const servers = [];
after(() => servers.forEach((server) => server.kill()));

/**
 * Starts `pitcrew view`, and returns it with its one-time link.
 * @param {string} what
 */
async function view(what) {
  const args = ["--json", "view", what, "--no-open"];
  const server = spawn(given.program, args, { stdio: ["pipe", "pipe", "inherit"] });
  servers.push(server);
  for await (const line of createInterface({ input: server.stdout })) {
    return { server, link: /** @type {string} */ (JSON.parse(line).link) };
  }
  throw new Error(`pitcrew view ${what} has ended`);
}

/**
 * Opens the view of a file, a pipe or a team.
 * @param {string} what
 * @param {any} [options]
 */
async function opened(what, options = DESK) {
  const { server, link } = await view(what);
  const own = new URL(link).origin;
  const { page, context, errors } = await open(options, own);
  await page.goto(link);
  assert.equal(page.url(), `${own}/`, "the link leaves no token in the address");
  await scrubber(page).waitFor();
  return { server, page, context, errors, own };
}

/** @param {Page} page */
const scrubber = (page) => page.getByRole("slider", { name: "Moment" });

/**
 * Moves the scrubber to a line of a stream.
 * @param {Page} page
 * @param {number} line
 */
async function toLine(page, line) {
  const from = 1;
  await scrubber(page).fill(String((line - from) * 1_000));
  await page.locator(".player time", { hasText: new RegExp(`^line ${line}$`) }).waitFor();
}

/** @param {string} name */
const linesOf = (name) => readFileSync(`${name}.ndjson`, "utf8").split("\n").filter(Boolean);

/**
 * The five scenarios of the stream document. `to` shows the state after so many lines.
 * @param {Page} page
 * @param {(line: number) => Promise<void>} to
 */
async function scenarios(page, to) {
  const card = page.getByRole("article", { name: "swift-expert" });
  // 1: a started teammate yields a new card with its colour and its model.
  await to(3);
  await page.getByRole("article", { name: "team-lead" }).waitFor();
  assert.equal(await card.count(), 0);
  await to(4);
  await card.waitFor();
  assert.equal(await card.locator(".color").textContent(), "blue");
  assert.equal(await card.locator(".model").textContent(), "claude-opus-4-6");
  // 2: a broadcast is a notification to the team, a message is at its card.
  await to(8);
  const banner = page.getByRole("region", { name: "Message to the team" });
  await banner.getByText(/@team/).waitFor();
  assert.match(await banner.innerText(), /team-lead to swift-expert, rust-expert/);
  assert.match(await card.locator(".mail").innerText(), /team-lead.*Requesting Swift analysis/s);
  // 3: the answer to a shutdown request makes the card say that it is shutting down.
  await to(10);
  await card.locator(".state", { hasText: "shutting down" }).waitFor();
  // 4: a failed cleanup leaves the team as it is and shows the error.
  await to(11);
  const alert = page.getByRole("alert");
  await alert.getByText(/Cannot cleanup team with 2 active member/).waitFor();
  await to(12);
  await page.locator(".top .state", { hasText: "cleaned_up" }).waitFor();
  assert.equal(await alert.count(), 0);
  // 5: the result shows the numbers of the session.
  await to(13);
  const summary = await page.getByRole("region", { name: "Session summary" }).innerText();
  for (const part of ["success", "10.8 s", "20 min 4 s", "$8.56", "claude-opus-4-6", "$8.40"]) {
    assert.ok(summary.includes(part), `${part} in ${summary}`);
  }
}

test("the five scenarios are shown at their moments, forth and back", async () => {
  const { page, context, errors } = await opened("guide.ndjson");
  await scenarios(page, (line) => toLine(page, line));
  // The file ends with the end of its session, so there is nothing to follow.
  assert.equal(await page.getByRole("button", { name: "Follow" }).count(), 0);
  // Back: the state of then, with nothing of later.
  await toLine(page, 8);
  assert.equal(await page.getByRole("region", { name: "Session summary" }).count(), 0);
  const card = page.getByRole("article", { name: "swift-expert" });
  assert.doesNotMatch(await card.locator(".state").innerText(), /shutting down/);
  const entries = Number(await page.getByLabel("Number of entries").innerText());
  await toLine(page, 4);
  assert.ok(Number(await page.getByLabel("Number of entries").innerText()) < entries);
  await toLine(page, 3);
  assert.equal(await card.count(), 0);
  assert.deepEqual(errors, []);
  await context.close();
});

for (const name of ["lifecycle", "errors"]) {
  test(`the recorded stream ${name} is replayed whole`, async () => {
    const { page, context, errors } = await opened(`${name}.ndjson`);
    const count = linesOf(name).length;
    await scrubber(page).press("End");
    await page.locator(".player time", { hasText: new RegExp(`^line ${count}$`) }).waitFor();
    await page.getByRole("article", { name: "team-lead" }).waitFor();
    await page.getByRole("region", { name: "Session summary" }).waitFor();
    const all = await page.getByLabel("Number of entries").innerText();
    await scrubber(page).press("Home");
    assert.equal(await page.getByRole("region", { name: "Session summary" }).count(), 0);
    await scrubber(page).press("End");
    assert.equal(await page.getByLabel("Number of entries").innerText(), all);
    assert.deepEqual(errors, []);
    await context.close();
  });
}

test("a live pipe is followed, scrubbed while it runs, and replayed after its end", async () => {
  const { server, page, context, errors } = await opened("-");
  const lines = linesOf("guide");
  let written = 0;
  await page.locator(".top .state", { hasText: "live" }).waitFor();
  await thereIsNoMoment(page, "waiting for the first line");
  await scenarios(page, async (count) => {
    for (; written < count; written += 1) {
      server.stdin?.write(`${lines[written]}\n`);
      // Each line has a time of its own.
      await page.waitForTimeout(20);
    }
  });
  // Back in the middle of the stream: what comes later does not move the moment.
  await scrubber(page).press("Home");
  await page.getByRole("button", { name: "Follow", pressed: false }).waitFor();
  await theStreamBeganJustNow(page);
  server.stdin?.end(`${lines[3]}\n`);
  await page.locator(".top .state", { hasText: "replay" }).waitFor();
  assert.equal(await page.getByRole("article", { name: "swift-expert" }).count(), 0);
  await scrubber(page).press("End");
  await page.getByRole("region", { name: "Session summary" }).waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

test("a pipe that ends without a line says so", async () => {
  const { server, page, context, errors } = await opened("-");
  await thereIsNoMoment(page, "waiting for the first line");
  server.stdin?.end();
  await thereIsNoMoment(page, "nothing was recorded");
  assert.deepEqual(errors, []);
  await context.close();
});

/**
 * Checks that nothing can be played, and that the player says why.
 * @param {Page} page
 * @param {string} why
 */
async function thereIsNoMoment(page, why) {
  await page.locator(".player time", { hasText: why }).waitFor();
  assert.equal(await scrubber(page).getAttribute("aria-valuetext"), why);
  assert.ok(await scrubber(page).isDisabled());
  assert.ok(await page.getByRole("button", { name: "Play" }).isDisabled());
  assert.equal(await page.getByRole("button", { name: "Copy link" }).count(), 0);
  assert.deepEqual(await violations(page), []);
}

/**
 * Checks that the beginning of a live stream is the time of its first line.
 * @param {Page} page
 */
async function theStreamBeganJustNow(page) {
  assert.match((await scrubber(page).getAttribute("aria-valuetext")) ?? "", /\(\+0\.0 s\)/);
  const length = Number(await scrubber(page).getAttribute("max"));
  assert.ok(length < 600_000, `the stream is ${length} ms long`);
}

test("a file that is begun again is replayed anew, and the page says so", async () => {
  writeFileSync("again.ndjson", readFileSync("lifecycle.ndjson"));
  const { page, context, errors } = await opened("again.ndjson");
  await page.locator(".top .name", { hasText: "probe" }).waitFor();
  writeFileSync("again.ndjson", readFileSync("guide.ndjson"));
  await page.getByText("the file was begun again, and this is its new content").waitFor();
  await scrubber(page).press("End");
  await page.getByRole("article", { name: "swift-expert" }).waitFor();
  assert.equal(await page.getByText("probe").count(), 0);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a keyboard and a screen reader play a replay", async () => {
  const { page, context } = await opened("lifecycle.ndjson");
  const slider = scrubber(page);
  await slider.press("Home");
  const spoken = () => slider.getAttribute("aria-valuetext");
  await slider.press("ArrowRight");
  assert.match((await spoken()) ?? "", /^line \d+, .*team probe created/);
  await slider.press("ArrowRight");
  assert.match((await spoken()) ?? "", /task #1 created/);
  await slider.press("ArrowLeft");
  assert.match((await spoken()) ?? "", /team probe created/);
  const before = Number(await slider.inputValue());
  await slider.press("PageUp");
  assert.ok(Number(await slider.inputValue()) > before, "Page Up moves on");
  await slider.press("PageDown");
  assert.equal(Number(await slider.inputValue()), before, "Page Down moves back");
  await page.getByLabel("Speed").selectOption("100");
  await slider.focus();
  await slider.press(" ");
  await page.locator(".player time", { hasText: /^line 29$/ }).waitFor();
  // At its end the replay rests.
  await page.getByRole("button", { name: "Play" }).waitFor();
  await context.close();
});

test("a link leads to a moment and to the view that was open", async () => {
  const { page, context, own } = await opened("lifecycle.ndjson");
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: own });
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Tasks" }).click();
  await toLine(page, 8);
  await page.getByRole("button", { name: "Copy link to this moment" }).click();
  await page.getByText("Copied.").waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(copied, `${own}/#/replay/view/tasks?at=8000`);
  await scrubber(page).press("End");
  await page.goto(copied);
  await page.locator(".player time", { hasText: /^line 8$/ }).waitFor();
  await page.reload();
  await page.locator(".player time", { hasText: /^line 8$/ }).waitFor();
  assert.equal(await page.locator(".node").count(), 2);
  await context.close();
});

test("the conversation of an agent grows with the moments", async () => {
  const { page, context } = await opened("lifecycle.ndjson");
  await toLine(page, 10);
  await page.getByRole("link", { name: "team-lead" }).first().click();
  const parts = page.locator(".conversation .part");
  await parts.first().waitFor();
  const early = await parts.count();
  await scrubber(page).press("End");
  await page.waitForFunction((early) => document.querySelectorAll(".part").length > early, early);
  assert.equal(await page.getByRole("group", { name: "Controls" }).count(), 0);
  await toLine(page, 10);
  assert.equal(await parts.count(), early);
  await context.close();
});

for (const [size, device] of /** @type {const} */ ([
  ["wide", DESK],
  ["narrow", PHONE],
])) {
  for (const colorScheme of /** @type {const} */ (["dark", "light"])) {
    test(`no view of a replay has a fault on a ${size} screen in ${colorScheme}`, async () => {
      const options = { ...device, colorScheme, reducedMotion: "reduce" };
      const { page, context, own, errors } = await opened("lifecycle.ndjson", options);
      await scrubber(page).press("End");
      for (const name of ["", "/tasks/2", "/timeline", "/member/team-lead"]) {
        await page.goto(`${own}/#/replay/view${name}`);
        await page.locator("main > *").first().waitFor();
        assert.deepEqual(await violations(page), [], `${name} ${size} ${colorScheme}`);
        const wide = await page.evaluate(
          () => document.documentElement.scrollWidth - screen.width,
        );
        assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
      }
      await page.goto(`${own}/#/replay/view`);
      const player = await page.locator(".player").boundingBox();
      const height = player?.height ?? Infinity;
      assert.ok(height < device.viewport.height * 0.3, `the player is ${height} pixels high`);
      await shot(page, `replay-${size}-${colorScheme}`);
      assert.deepEqual(errors, []);
      await context.close();
    });
  }
}

/** Returns the guide's stream with the agents of `names.mjs`, each of which starts and gets mail. */
function named() {
  const [create, created, ...rest] = linesOf("guide");
  const ofEach = NAMES.map((name) =>
    rest.slice(0, 4).map((line) => line.replaceAll("swift-expert", name).replaceAll("toolu_01", name)),
  );
  const ofAll = rest.at(-1)?.replaceAll("claude-opus-4-6", NAMES[1] ?? "");
  return [create, created, ...ofEach.flat(), ofAll].join("\n");
}

test("agents of a stream can have the names of what every object has", async () => {
  writeFileSync("names.ndjson", named());
  const { page, context, errors, own } = await opened("names.ndjson");
  await scrubber(page).press("End");
  for (const name of NAMES) {
    const card = page.getByRole("article", { name, exact: true });
    assert.match(await card.locator(".mail").innerText(), /team-lead.*Requesting/s);
  }
  const summary = page.getByRole("region", { name: "Session summary" });
  await summary.getByRole("rowheader", { name: NAMES[1] }).waitFor();
  await agentsAreShown(page, `${own}/#/replay/view`);
  await scrubber(page).press("Home");
  for (const _line of named().split("\n")) await scrubber(page).press("ArrowRight");
  await summary.waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

/** @param {Page} page */
async function teamIsReplayed(page) {
  await scrubber(page).press("Home");
  assert.equal(await page.getByRole("article", { name: "bob" }).count(), 0);
  const seen = new Set();
  for (let n = 0; n < 60; n += 1) {
    await scrubber(page).press("ArrowRight");
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn))));
    for (const node of await page.locator(".card .task").allInnerTexts()) {
      // A card that is drawn anew has no text for a moment.
      if (node) seen.add(node);
    }
    if (await page.getByRole("region", { name: "Session summary" }).count()) break;
  }
  assert.deepEqual([...seen], ["#1 Write the notes"], "bob works on the task at some moment");
  await page.getByRole("article", { name: "bob" }).waitFor();
  await scrubber(page).press("End");
  await page.getByRole("region", { name: "Session summary" }).getByText("Turns").waitFor();
  assert.match((await page.locator(".player time").innerText()) ?? "", /^\d+\/\d+\/\d{4}, \d\d:\d\d:\d\d \(\+/);
  assert.equal(await page.getByRole("button", { name: /Message/ }).count(), 0);
}

test("the view of a team is a replay of its run", async () => {
  const { page, context, errors } = await opened("notes");
  await teamIsReplayed(page);
  assert.deepEqual(errors, []);
  await context.close();
});

test("the page of all teams replays an archived team, and leads back", async () => {
  const { page, context, errors } = await open();
  await page.goto(`${origin}/#/`);
  await page.getByRole("link", { name: /^notes/ }).click();
  await page.getByRole("link", { name: "Replay" }).click();
  await scrubber(page).waitFor();
  assert.match(page.url(), /#\/replay\/notes/);
  await teamIsReplayed(page);
  await page.getByRole("link", { name: "bob", exact: true }).click();
  await page.getByText("Done.").first().waitFor();
  assert.match(page.url(), /#\/replay\/notes[^/]*\/member\/bob/);
  await page.getByRole("link", { name: "Back" }).click();
  await page.getByRole("link", { name: "Replay" }).waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

/** The number of events of a long replay, and of its agents. */
const MANY = 100_000;
const AGENTS = 50;

/** Returns a replay of many events, as the server writes it. */
function long() {
  const agent = (/** @type {number} */ n) => ({ name: `agent-${n % AGENTS}` });
  const whole = { role: "teammate", status: "running", tool_calls: 0, cost_usd: 0, asks: {} };
  const first = Array.from({ length: AGENTS }, (_, n) => ({
    ...agent(n),
    ...whole,
    ...{ turns: 0, usage: {}, has_price: true, is_counted: true, doing: null },
  }));
  const said = (/** @type {number} */ n) => ({
    happened: { line: n, what: { happened: "said", agent: agent(n).name, text: `text ${n}` } },
  });
  const events = Array.from({ length: MANY }, (_, n) => ({
    seq: n,
    at_ms: n * 1_000,
    what:
      n === 0
        ? { changed: { team: { team: "long" }, agents: first } }
        : n % 2
          ? said(n)
          : { changed: { agents: [{ ...agent(n), turns: n, doing: `works on ${n}` }] } },
  }));
  const to_ms = (MANY - 1) * 1_000;
  const nothing = { first: {}, left_out: 0, unread: [], is_live: false };
  return { name: "long", clock: "lines", from_ms: 0, to_ms, events, ...nothing };
}

test("a replay of 100,000 events is scrubbed without a long task", async () => {
  const { link } = await view("guide.ndjson");
  const { page, context, errors } = await open(DESK, new URL(link).origin);
  await page.route("**/api/view/replay", (route) => route.fulfill({ json: long() }));
  await page.goto(link);
  await scrubber(page).press("End");
  await page.locator(".note", { hasText: /^50000$/ }).waitFor();
  const rounds = [];
  // Another program can delay a round. It never makes one faster.
  while (rounds.length < 4 && !rounds.some((ms) => ms < 100)) {
    rounds.push(await page.evaluate(scrubbed, MANY * 1_000));
  }
  assert.ok(rounds.some((ms) => ms < 100), `the longest tasks took ${rounds.join(", ")} ms`);
  const rows = await page.locator(".row").count();
  assert.ok(rows < 60, `${rows} rows are in the document`);
  assert.deepEqual(errors, []);
  await context.close();
});

/**
 * Moves the scrubber to and fro, and measures the longest task meanwhile.
 * @param {number} length
 */
async function scrubbed(length) {
  let task_ms = 0;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) task_ms = Math.max(task_ms, entry.duration);
  });
  observer.observe({ type: "longtask" });
  const slider = /** @type {HTMLInputElement} */ (document.querySelector(".player input"));
  for (let n = 1; n <= 60; n += 1) {
    slider.value = String((n * 31_337_000) % length);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((drawn) => requestAnimationFrame(drawn));
    await new Promise((drawn) => requestAnimationFrame(drawn));
  }
  observer.disconnect();
  return task_ms;
}
