// What a person tries who sees the page for the first time: writes to the agent that is shown, reads
// a conversation, comments on a change, and looks for the team that waits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { given, open, origin, states, violationsInBothThemes } from "./browser.mjs";
import { play } from "./played.mjs";

/** @typedef {import("playwright-core").Page} Page */

const LAST = states("lifecycle").at(-1);
const [SAMPLE] = LAST.agents;
const LEAD = { ...SAMPLE, name: "team-lead", role: "lead", status: "running" };
const BOB = { ...SAMPLE, name: "bob", role: "teammate", status: "running", turns: 1 };
const ANN = { ...BOB, name: "ann" };
const TEAM = { ...LAST, lead: "team-lead", session: null, agents: [LEAD, ANN, BOB] };

/**
 * Answers the messages that the page sends. Returns them.
 * @param {Page} page
 * @param {string} team
 */
async function taken(page, team) {
  /** @type {any[]} */
  const sent = [];
  await page.route(`${origin}/api/teams/${team}/messages`, (route) => {
    sent.push(route.request().postDataJSON());
    return route.fulfill({ status: 201, json: { success: true } });
  });
  return sent;
}

test("a message on the page of an agent goes to this agent", async () => {
  const { page, context, errors } = await open();
  const sent = await taken(page, "aimed");
  await page.route(`${origin}/api/teams/aimed/members/**`, (route) =>
    route.fulfill({ json: { entries: [], total: 0 } }),
  );
  await play(page, "aimed", [TEAM]);
  const to = page.getByRole("combobox", { name: /^To/ });
  await page.waitForFunction(() => document.querySelectorAll(".card").length === 3);
  assert.equal(await to.inputValue(), "team-lead");
  await page.getByRole("link", { name: "bob", exact: true }).click();
  await page.getByText("The conversation is empty.").waitFor();
  assert.equal(await to.inputValue(), "bob");
  await page.getByRole("textbox", { name: "Message" }).fill("a remark for bob");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  // The run has ended in this test.
  await page.getByText("Sent to bob. Nobody reads it before the team is resumed").waitFor();
  assert.deepEqual(sent, [{ to: "bob", content: "a remark for bob" }]);
  await page.getByRole("link", { name: /^Team$/ }).click();
  await page.getByRole("article").first().waitFor();
  assert.equal(await to.inputValue(), "team-lead");
  assert.deepEqual(errors, []);
  await context.close();
});

/** @param {number} n */
const partOf = (n) => ({ part: "text", text: `part ${n}\n${"more of it\n".repeat(n % 7)}` });

/**
 * Sends an event to the page, as another tab of the browser passes it on.
 * @param {Page} page
 * @param {string} team
 * @param {number} seq
 * @param {any} run
 */
function happens(page, team, seq, run) {
  return page.evaluate(
    ([team, seq, run]) => {
      const channel = new BroadcastChannel(`pitcrew events ${team}`);
      channel.postMessage({ kind: "event", data: { seq, at_ms: 0, what: { run } } });
      channel.close();
    },
    /** @type {const} */ ([team, seq, run]),
  );
}

/**
 * Returns where a part is on the screen, in pixels from the top.
 * @param {Page} page
 * @param {number} n
 */
async function placeOf(page, n) {
  const box = await page.locator(".part", { hasText: new RegExp(`^part ${n}\\b`) }).boundingBox();
  assert.ok(box, `part ${n}`);
  return Math.round(box.y);
}

test("a conversation is read from its end, and stays where a person reads it", async () => {
  const { page, context, errors } = await open();
  let count = 400;
  await page.route(`${origin}/api/teams/talk/members/bob/conversation?*`, (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get("from"));
    const entries = Array.from({ length: count - from }, (_, n) => partOf(from + n));
    return route.fulfill({ json: { entries, total: count } });
  });
  await play(page, "talk", [TEAM]);
  await page.goto(`${origin}/#/talk/member/bob`);
  const last = (/** @type {number} */ n) => page.locator(".part", { hasText: `part ${n}` });
  const toEnd = page.getByRole("button", { name: "To the end" });
  let seq = 50;
  /** One more part, after an answer of the model. */
  const answers = async () => {
    count += 1;
    await happens(page, "talk", (seq += 1), { event: "answered", agent: "bob", blocks: [] });
    await last(count - 1).waitFor({ state: "attached" });
  };
  const isAtEnd = () =>
    page.waitForFunction(() => {
      const main = document.querySelector("main");
      return main && main.scrollHeight - main.scrollTop - main.clientHeight < 40;
    });
  await last(399).waitFor();
  await isAtEnd();
  assert.equal(await toEnd.count(), 0);
  await answers();
  await isAtEnd();
  assert.equal(await toEnd.count(), 0);
  assert.deepEqual(await violationsInBothThemes(page), []);
  await page.locator("main").hover();
  await page.mouse.wheel(0, -2_000);
  await toEnd.waitFor();
  assert.deepEqual(await violationsInBothThemes(page), []);
  const shown = await page.evaluate(() => {
    const part = [...document.querySelectorAll(".part")].find((it) => it.getBoundingClientRect().top > 200);
    return Number(/^part (\d+)/.exec(part?.textContent ?? "")?.[1]);
  });
  const before = await placeOf(page, shown);
  await answers();
  await answers();
  assert.equal(await placeOf(page, shown), before);
  const first = await page.getByRole("button", { name: "Show earlier parts (251)" });
  await first.scrollIntoViewIfNeeded();
  const oldest = await placeOf(page, 251);
  await first.click();
  await page.getByRole("button", { name: "Show earlier parts (101)" }).waitFor({ state: "attached" });
  assert.ok(Math.abs((await placeOf(page, 251)) - oldest) < 60, "the parts below stay");
  await toEnd.click();
  await isAtEnd();
  await toEnd.waitFor({ state: "detached" });
  assert.deepEqual(errors, []);
  await context.close();
});

test("frames are told in words, as in the terminal", async () => {
  const { page, context, errors } = await open();
  const frames = [
    ["plan_approval_response", { approved: false, feedback: "smaller steps" }],
    ["plan_approval_response", { approved: true }],
    ["task_assignment", { subject: "Write the notes" }],
    ["of_tomorrow", {}],
  ];
  const entries = frames.map(([frame, fields]) => ({
    part: "mail",
    from: "team-lead",
    frame,
    text: JSON.stringify({ type: frame, .../** @type {any} */ (fields) }),
  }));
  await page.route(`${origin}/api/teams/frames/members/bob/conversation?*`, (route) =>
    route.fulfill({ json: { entries, total: entries.length } }),
  );
  await play(page, "frames", [TEAM]);
  await page.goto(`${origin}/#/frames/member/bob`);
  const told = page.locator(".conversation summary");
  await told.first().waitFor();
  assert.deepEqual(await told.allInnerTexts(), [
    "team-lead answers the plan: sent back, smaller steps",
    "team-lead answers the plan: approved",
    "team-lead assigns a task: Write the notes",
    "team-lead sends a of tomorrow",
  ]);
  await told.first().click();
  await page.getByText('"feedback":"smaller steps"').waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

test("a review begins with the first changes, and shows the comments that were sent", async () => {
  const { page, context, errors } = await open();
  const sent = await taken(page, "reviewed");
  const diff = "@@ -0,0 +1,2 @@\n+one\n+two\n";
  const counts = [{ member: "ann", files: 2 }, { member: "bob", files: 1 }];
  await page.route(`${origin}/api/teams/reviewed/members/*/changes`, (route) => {
    const isOfLead = route.request().url().includes("team-lead");
    const files = isOfLead ? [] : [{ path: "a.txt", diff }, { path: "b.txt", diff }];
    return route.fulfill({ json: { folder: "/w", files, branch: null, left_out: 0, counts } });
  });
  await play(page, "reviewed", [TEAM]);
  await page.goto(`${origin}/#/reviewed/review`);
  const members = page.getByRole("navigation", { name: "Members" });
  await members.locator("[aria-current]", { hasText: "ann" }).waitFor();
  assert.deepEqual(await members.getByRole("link").allInnerTexts(), [
    "team-lead 0",
    "ann 2",
    "bob 1",
  ]);
  await page.getByText("ann has no worktree").waitFor();
  await page.getByText("A click on the number of a line opens a comment for ann.").waitFor();
  const file = page.getByRole("table", { name: "Diff of a.txt" });
  await file.getByTitle("Comment on this line").nth(1).click();
  await page.getByRole("textbox", { name: "Comment for ann" }).fill("Why two?");
  await page.getByRole("button", { name: "Send the comment" }).click();
  await file.getByText("sent to ann: Why two?").waitFor();
  await page.getByRole("status").getByText("The comment was sent to ann.").waitFor({ state: "attached" });
  assert.deepEqual(sent.map(({ to }) => to), ["ann"]);
  assert.match(sent[0].content, /Review of a\.txt, line 2:\n> two\n\nWhy two\?/);
  assert.deepEqual(await violationsInBothThemes(page), []);
  await members.getByRole("link", { name: /^bob/ }).click();
  await page.getByText("bob has no worktree").waitFor();
  assert.equal(await page.locator(".sent").count(), 0);
  await members.getByRole("link", { name: /^ann/ }).click();
  await file.getByText("sent to ann: Why two?").waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

test("new changes wait until the person asks for them, and a merge is offered above them", async () => {
  const { page, context, errors } = await open();
  const diff = "@@ -0,0 +1 @@\n+one\n";
  const branch = { name: "work", base: "main", commit: "abc", behind: 0, uncommitted: [] };
  let json = { folder: "/w", files: [{ path: "a.txt", diff }], branch: { ...branch, ahead: 1 } };
  await page.route(`${origin}/api/teams/merged/members/*/changes`, (route) => route.fulfill({ json }));
  await page.route(`${origin}/api/teams/merged/members/ann/merge`, (route) => {
    assert.deepEqual(route.request().postDataJSON(), { commit: "abd" });
    json = { folder: "/w", files: [], branch: { ...branch, commit: "abd", ahead: 0 } };
    return route.fulfill({ json: { success: true, branch: "main" } });
  });
  await play(page, "merged", [TEAM]);
  await page.goto(`${origin}/#/merged/review/ann`);
  const merge = page.getByRole("button", { name: "Merge work into main" });
  await merge.click();
  const file = page.getByRole("table", { name: "Diff of a.txt" });
  await file.getByTitle("Comment on this line").click();
  await page.getByRole("textbox", { name: "Comment for ann" }).fill("about one");
  // Another view does not lose the comment.
  await page.getByRole("link", { name: "Tasks" }).click();
  await page.getByRole("link", { name: "Review" }).click();
  await page.getByRole("link", { name: /^ann/ }).click();
  assert.equal(await page.getByRole("textbox", { name: "Comment for ann" }).inputValue(), "about one");
  await merge.click();
  // Ann commits more, and the person comes back to the page.
  const moved = "@@ -0,0 +1,2 @@\n+zero\n+one\n";
  json = {
    folder: "/w",
    files: [{ path: "a.txt", diff: moved }, { path: "b.txt", diff }],
    branch: { ...branch, commit: "abd", ahead: 2 },
  };
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  const show = page.getByRole("button", { name: "Show them" });
  await show.waitFor();
  assert.equal(await page.getByRole("table", { name: "Diff of b.txt" }).count(), 0);
  // The old changes are not merged while there are newer ones.
  assert.equal(await merge.count(), 0);
  await show.click();
  await page.getByRole("table", { name: "Diff of b.txt" }).waitFor();
  // No comment is sent about a line that it was not written for.
  await page.getByText("The line of your comment has changed. You wrote: about one").waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Comment for ann" }).count(), 0);
  // The first click was for the other commit.
  await merge.click();
  await page.getByRole("button", { name: "Click again to merge work into main" }).click();
  await page.getByRole("status").getByText("work was merged into main.").waitFor({ state: "attached" });
  await page.getByText("0 changed files on branch work, 0 commits ahead of main").waitFor();
  await page.getByText("Nothing is left to merge: everything of ann is in main").waitFor();
  assert.equal(await page.getByRole("button", { name: /^Merge/ }).count(), 0);
  assert.equal(await page.getByText("has no worktree").count(), 0);
  assert.deepEqual(errors, []);
  await context.close();
});

test("the controls of an agent stay above its conversation", async () => {
  const { page, context } = await open();
  const parts = Array.from({ length: 60 }, (_, n) => ({ part: "text", text: `part ${n}\n`.repeat(4) }));
  await page.route(`${origin}/api/teams/long/members/ann/conversation*`, (route) =>
    route.fulfill({ json: { entries: parts, total: parts.length } }));
  await play(page, "long", [TEAM]);
  await page.goto(`${origin}/#/long/member/ann`);
  await page.getByText("part 59").first().waitFor();
  const isInView = () => page.evaluate(() => {
    const button = [...document.querySelectorAll("button")].find((it) => it.textContent?.includes("Interrupt"));
    const { top = -1 } = button?.getBoundingClientRect() ?? {};
    return top >= 0 && top < innerHeight;
  });
  assert.ok(await isInView());
  // On a phone they open when they are wanted.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.reload();
  await page.getByText("part 59").first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Interrupt" }).isVisible(), false);
  await page.getByText("Controls").click();
  await page.getByRole("button", { name: "Interrupt" }).waitFor();
  assert.ok(await isInView());
  await context.close();
});

test("the list of teams begins with those that wait for a person", async () => {
  const { page, context } = await open();
  const of = { state: "running", members: ["team-lead"], tasks: { open: 0, done: 0 } };
  const teams = [
    { ...of, name: "quiet", waiting: 0 },
    { ...of, name: "silent" },
    { ...of, name: "asks", waiting: 2 },
    { ...of, name: "asks-once", waiting: 1 },
  ];
  await page.route(`${origin}/api/teams`, (route) => route.fulfill({ json: { teams } }));
  await page.goto(`${origin}/#/`);
  await page.reload();
  const listed = page.getByRole("region", { name: "Running" }).getByRole("link");
  await listed.first().waitFor();
  const notes = await listed.locator(".note").allInnerTexts();
  const names = await listed.locator("b:first-child").first().innerText();
  assert.equal(names, "asks");
  assert.match(notes[0] ?? "", /^2 wait for you · /);
  assert.match(notes[1] ?? "", /^1 waits for you · /);
  assert.ok(notes.slice(2).every((note) => !note.includes("for you")), notes.join());
  assert.deepEqual(await violationsInBothThemes(page), []);
  await context.close();
});

test("a browser that was removed learns it, at once and after a reload", async () => {
  const { page, context } = await open();
  const refused = { success: false, error: "unauthorized", message: "no valid token" };
  await play(page, "removed", [TEAM]);
  await page.getByRole("article").first().waitFor();
  await page.getByRole("textbox", { name: "Message" }).fill("hello");
  await page.route(`${origin}/api/**`, (route) => route.fulfill({ status: 401, json: refused }));
  // A read that the page makes by itself can be refused before the message is.
  await page.keyboard.press("Enter");
  const told = page.getByRole("alert").getByText("The server does not know this browser");
  for (const _ of ["at once", "after a reload"]) {
    await told.waitFor();
    assert.equal(await page.getByRole("form").count(), 0);
    assert.equal(await page.getByRole("navigation").count(), 0);
    assert.equal(await page.getByText("connection lost").count(), 0);
    assert.deepEqual(await violationsInBothThemes(page), []);
    await page.reload();
  }
  await context.close();
});

test("a used link and a wrong code are explained in a page", async () => {
  const { page, context } = await open();
  await context.clearCookies();
  for (const [address, words] of [
    [given.link, "this link was opened before"],
    [`${origin}/pair/AAAA-AAAA`, "this code is wrong, used or too old"],
  ]) {
    const answer = await page.goto(address ?? "");
    assert.equal(answer?.status(), 403);
    await page.getByText(words ?? "").waitFor();
    assert.deepEqual(await violationsInBothThemes(page), [], words);
  }
  await page.getByRole("link", { name: "Open the page" }).click();
  await page.getByRole("alert").getByText("The server does not know this browser").waitFor();
  await context.close();
  // A browser that is paired is sent on.
  const paired = await open();
  await paired.page.goto(given.link);
  await paired.page.getByRole("heading", { name: "Teams" }).waitFor();
  await paired.context.close();
});

const REQUEST = {
  id: "q1",
  since_ms: 0,
  question: {
    asker: "bob",
    tool: "Bash",
    folder: "/repository",
    reason: "",
    lines: [{ kind: "text", text: "ls" }],
    offers: [{ rule: "Bash(ls:*)" }],
    digest: "d",
  },
};

test("the answers to a request close each other, and Escape closes both", async () => {
  const { page, context, errors } = await open();
  await play(page, "asked", [TEAM], [], [{ question_opened: REQUEST }]);
  const question = page.getByRole("article", { name: /bob asks permission for Bash/ });
  const offers = question.getByRole("list", { name: "Answers for later calls too" });
  const reason = question.getByRole("textbox");
  await question.getByRole("button", { name: "Always…" }).click();
  await offers.waitFor();
  await question.getByRole("button", { name: "Refuse…" }).click();
  await reason.waitFor();
  assert.equal(await offers.count(), 0);
  await page.keyboard.press("Escape");
  await reason.waitFor({ state: "detached" });
  await question.getByRole("button", { name: "Always…" }).click();
  await offers.waitFor();
  await page.keyboard.press("Escape");
  await offers.waitFor({ state: "detached" });
  // A request that is answered goes. The keyboard goes on from what is next.
  await question.getByRole("button", { name: "Allow once" }).focus();
  await page.evaluate((id) => {
    const channel = new BroadcastChannel("pitcrew events asked");
    channel.postMessage({
      kind: "event",
      data: { seq: 9, at_ms: 0, what: { question_closed: { id, answer: null } } },
    });
    channel.close();
  }, REQUEST.id);
  await question.waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement?.id === "main");
  assert.deepEqual(errors, []);
  await context.close();
});

test("an unknown team has no views", async () => {
  const { page, context } = await open();
  await page.goto(`${origin}/#/nowhere`);
  await page.getByRole("alert").first().waitFor();
  await page.getByRole("navigation", { name: "Views" }).waitFor({ state: "detached" });
  await context.close();
});

test("the replay of a team that runs says so, and skips a pause", async () => {
  const { page, context, errors } = await open();
  const at = 1_795_000_000_000;
  /** @param {number} seq @param {number} at_ms */
  const event = (seq, at_ms) => {
    const what = { at_ms, kind: "run", event: "said", agent: "bob", text: `entry ${seq}` };
    return { seq, at_ms, what: { happened: { line: seq, what } } };
  };
  const events = [event(0, at), event(1, at + 300_000), event(2, at + 300_500)];
  const replay = {
    name: "runs",
    clock: "recorded",
    from_ms: at,
    to_ms: at + 300_500,
    first: { team: TEAM, tasks: [], questions: [], next_seq: 0 },
    events,
    left_out: 0,
    unread: [],
  };
  await page.route(`${origin}/api/teams/runs/replay`, (route) => route.fulfill({ json: replay }));
  await page.route(`${origin}/api/teams/runs`, (route) =>
    route.fulfill({ json: { name: "runs", state: "running" } }),
  );
  await page.goto(`${origin}/#/replay/runs`);
  const note = page.getByText(/^As of \d\d:\d\d:\d\d; it still runs\./);
  await note.waitFor();
  assert.equal(await note.getByRole("link", { name: "Live page" }).getAttribute("href"), "#/runs");
  await page.getByRole("button", { name: "Play" }).click();
  await page.getByText("skips 4 min 59 s").waitFor();
  // The pause of five minutes is over within seconds.
  await page.getByRole("button", { name: "Play" }).waitFor({ timeout: 10_000 });
  await page.locator(".player .event", { hasText: "entry 2" }).waitFor();
  assert.equal(await page.getByText(/^skips/).count(), 0);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a view that cannot be loaded is tried again, and the page keeps its frame", async () => {
  const { page, context } = await open();
  const modules = /assets\/(tasks|replay)\.js$/;
  await page.route(modules, (route) => route.abort());
  await play(page, "away", [TEAM]);
  await page.getByRole("link", { name: "Tasks" }).click();
  const told = page.getByRole("alert").getByText("This view cannot be loaded.");
  await told.waitFor();
  assert.deepEqual(await violationsInBothThemes(page), [], "tasks");
  await page.goto(`${origin}/#/replay/away`);
  await page.getByRole("heading", { name: "Replay of away" }).waitFor();
  await told.waitFor();
  assert.equal(await page.getByRole("link", { name: "Teams" }).getAttribute("href"), "#/");
  assert.deepEqual(await violationsInBothThemes(page), [], "replay");
  await page.unroute(modules);
  await page.goto(`${origin}/#/away/tasks`);
  await page.getByRole("heading", { name: /^Tasks/ }).waitFor();
  // The page tries again by itself, and when it is asked to.
  await page.goto(`${origin}/#/replay/away`);
  await page.getByRole("alert").getByText("does not exist").waitFor();
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await context.close();
});

test("an ended run keeps the draft that was not sent, and offers the next run of its name", async () => {
  const { page, context, errors } = await open();
  await play(page, "later", [{ ...TEAM, team: "later" }]);
  // From its end on, the page asks for the run by the id of its archive.
  await page.route(`${origin}/api/teams/later-1/**`, (route) =>
    route.fulfill({ json: { entries: [], plans: [], total: 0, next: 0 } }),
  );
  await page.getByRole("article").first().waitFor();
  await page.getByRole("textbox", { name: "Message" }).fill("half a thought");
  /** @param {any} json */
  const learns = async (json) => {
    await page.route(`${origin}/api/teams/later`, (route) => route.fulfill({ json }));
    await page.evaluate(() => dispatchEvent(new Event("focus")));
  };
  await learns({ name: "later", state: "archived", archive: "later-1", archived_at_ms: 1_795_000_000_000 });
  await page.locator(".top .state", { hasText: "archived" }).waitFor();
  const unsent = page.getByRole("textbox", { name: "Not sent" });
  assert.equal(await unsent.inputValue(), "half a thought");
  assert.deepEqual(await violationsInBothThemes(page), [], "archived");
  await learns({ name: "later", state: "running" });
  const news = page.getByRole("status").filter({ hasText: "A new run of later has begun." });
  await news.waitFor();
  assert.deepEqual(await violationsInBothThemes(page), [], "again");
  await news.getByRole("button", { name: "Open" }).click();
  await news.waitFor({ state: "detached" });
  // What was not sent to the earlier run can be sent to this one.
  const draft = page.getByRole("textbox", { name: "Message" });
  assert.equal(await draft.inputValue(), "half a thought");
  assert.deepEqual(errors, []);
  await context.close();
});

test("an agent that has ended is offered no commands", async () => {
  const { page, context, errors } = await open();
  await page.route(`${origin}/api/teams/over/members/**`, (route) =>
    route.fulfill({ json: { entries: [], total: 0 } }),
  );
  await play(page, "over", [{ ...TEAM, agents: [LEAD, { ...BOB, status: "completed" }] }]);
  await page.goto(`${origin}/#/over/member/bob`);
  await page.getByText("It takes no commands any more.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Interrupt" }).count(), 0);
  assert.deepEqual(await violationsInBothThemes(page), []);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a later version of a plan names the remarks before, and unsent remarks are kept", async () => {
  const { page, context, errors } = await open();
  const plan = { member: "bob", plan: "Rename it." };
  const path = `${origin}/api/teams/again/plans`;
  let plans = [{ ...plan, request_id: "one", state: "open" }];
  await play(page, "again", [TEAM]);
  await page.route(path, (route) => route.fulfill({ json: { plans } }));
  await page.goto(`${origin}/#/again/plans`);
  await page.reload();
  const remarks = page.getByRole("textbox", { name: "Remarks for bob" });
  await page.getByRole("button", { name: "Send back with remarks" }).click();
  await page.waitForFunction(() => document.activeElement?.tagName === "TEXTAREA");
  await remarks.fill("half a remark");
  const answered = { ...plan, request_id: "one", state: "rejected", feedback: "Smaller steps." };
  plans = [answered, { ...plan, request_id: "two", state: "open" }];
  // Another tab passes on that something has happened.
  await happens(page, "again", 90, { event: "answered", agent: "bob", blocks: [] });
  await page.getByRole("heading", { name: "bob asks to approve its plan again" }).waitFor();
  await page.getByText("The remarks on the version before: Smaller steps.").waitFor();
  const kept = page.getByRole("region", { name: "Remarks for bob that were not sent" });
  await kept.getByText("half a remark").waitFor();
  assert.equal(await remarks.inputValue(), "");
  assert.deepEqual(await violationsInBothThemes(page), []);
  await kept.getByRole("button", { name: "Put away" }).click();
  await kept.waitFor({ state: "detached" });
  assert.deepEqual(errors, []);
  await context.close();
});
