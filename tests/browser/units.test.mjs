// Tests of the page's pure modules: no browser and no server.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const PAGE = new URL("../../crates/web/page/", import.meta.url);
/** @param {string} name */
const module = (name) => import(new URL(name, PAGE).href);
const [
  { visible, oneLine },
  { fold, ofSnapshot },
  { layOut },
  { linesOf, comment, notCommitted },
  log,
  reading,
  list,
  words,
  { RequestKey },
] = await Promise.all(
  [
    "text.js",
    "fold.js",
    "graph.js",
    "diff.js",
    "log.js",
    "reading.js",
    "list.js",
    "words.js",
    "api.js",
  ].map(module),
);

test("a character that nobody could see is written out", () => {
  for (const [text, shown] of [
    ["ls -la\nrm\tx", "ls -la\nrm\tx"],
    ["a\u001b[2Jb\rc\u0008", "a<U+001B>[2Jb<U+000D>c<U+0008>"],
    ["\u202etxt.exe\u2066", "<U+202E>txt.exe<U+2066>"],
    ["r\u200bm a\u00a0b\u3000c\u2028d", "r<U+200B>m a<U+00A0>b<U+3000>c<U+2028>d"],
    ["x\u{e0041}\u2800\u3164\ufffc", "x<U+E0041><U+2800><U+3164><U+FFFC>"],
    ["a\u061c\ufff9\u034fb\ue000", "a<U+061C><U+FFF9><U+034F>b<U+E000>"],
    ["naïve 日本語 👩\u200d💻 שלום", "naïve 日本語 👩\u200d💻 שלום"],
    [`a${"\u0301".repeat(5)}`, `a${"\u0301".repeat(3)}<U+0301><U+0301>`],
    [undefined, ""],
    [7, "7"],
  ]) {
    assert.equal(visible(text), shown);
  }
  assert.equal(oneLine("it died:\n\n  a\u001b  \n b\n", 80), "it died: | a<U+001B> | b");
});

const AGENT = {
  name: "bob",
  status: "running",
  turns: 0,
  tool_calls: 0,
  usage: {},
  cost_usd: 0,
  has_price: true,
  asks: {},
};

/** @param {any[]} events */
function after(...events) {
  const start = ofSnapshot({
    next_seq: 0,
    team: { team: "work", lead: "team-lead", agents: [AGENT] },
  });
  return events.reduce((state, what, seq) => fold(state, { seq, at_ms: 0, what }), start);
}

/** @param {any} event */
const run = (event) => ({ run: { agent: "bob", ...event } });

test("an agent's card tells the latest call, its cost and the text that its model writes", () => {
  const called = run({ event: "tool_started", tool: "Bash", input: { command: "ls \u001b[2J" } });
  assert.equal(after(called).team.agents[0].doing, "Bash(ls <U+001B>[2J)");
  const text = run({ event: "text_delta", text: "Hel" });
  assert.deepEqual([...after(text, text).writing], [["bob", "HelHel"]]);
  assert.deepEqual(
    after(text, run({ event: "model_waits", reason: "429", delay_ms: 1500 })).writing.size,
    0,
  );
  const waits = after(run({ event: "model_waits", reason: "429", delay_ms: 1500 }));
  assert.equal(words.now(waits.team.agents[0]), "waits 2 s for the model: 429");
  const answer = run({
    event: "answered",
    usage: { input_tokens: 10, output_tokens: 5 },
    cost_usd: 0.5,
    blocks: [{ type: "tool_use" }, { type: "text" }],
  });
  const { turns, tool_calls, usage, cost_usd, has_price } = after(text, answer, answer).team
    .agents[0];
  assert.deepEqual(
    [turns, tool_calls, words.tokensOf(usage), cost_usd, has_price],
    [2, 2, 30, 1, true],
  );
  assert.equal(after(text, answer).writing.size, 0);
});

test("the limits of a run are beside what was used, and the outcome counts the earlier runs", () => {
  const limits = { max_turns: 40, max_cost_usd: 5 };
  const started = run({ event: "started", agent: "team-lead", limits, spent_before_usd: 1.5 });
  const config = {
    config: { name: "work", members: [{ name: "bob", pitcrew: { maxTurns: 9 } }] },
  };
  const answer = run({ event: "answered", cost_usd: 0.5, usage: { input_tokens: 10 } });
  const state = after(config, run({ event: "agent_started" }), started, answer);
  const shown = Object.fromEntries(
    state.team.agents.map((/** @type {any} */ it) => [it.name, words.numbers(it)]),
  );
  assert.equal(shown["bob"], "1 turn (limit 9) · 10 tokens · $0.50");
  assert.equal(shown["team-lead"], "0 turns (limit 40)");
  assert.equal(words.numbers({ ...AGENT, turns: 2 }), "2 turns");
  assert.equal(words.costOf(state.team), "$2.00 (limit $5.00)");
  const outcome = { team: "work", end: { kind: "success" }, agents: state.team.agents };
  const { team } = fold(state, { seq: 9, at_ms: 0, what: { ended: outcome } });
  assert.equal(words.costOf(team), "$0.50 (limit $5.00)");
  assert.equal(words.costOf({ team: "work", agents: [] }), "");
});

test("a request stays open until it is closed, and its agent asks until the answer", () => {
  const question = { id: "q1", question: { asker: "bob", tool: "Bash" } };
  const asked = run({ event: "permission_asked", call: "c1", tool: "Bash" });
  const open = after(asked, { question_opened: question });
  assert.deepEqual(open.questions, [question]);
  assert.equal(words.now(open.team.agents[0]), "asks permission for Bash");
  const closed = after(asked, { question_opened: question }, { question_closed: { id: "q1" } });
  assert.deepEqual(closed.questions, []);
  assert.deepEqual(
    after(asked, run({ event: "permission_answered", call: "c1" })).team.agents[0].asks,
    {},
  );
});

test("a teammate's plan is not among the requests, and the lead's own plan is", () => {
  const plan = (/** @type {string} */ asker) => ({
    id: asker,
    question: { asker, tool: "ExitPlanMode" },
  });
  const opened = after(...["bob", "team-lead"].map((it) => ({ question_opened: plan(it) })));
  assert.deepEqual(opened.questions, [plan("team-lead")]);
  const team = { team: "work", lead: "team-lead", agents: [AGENT] };
  const questions = [plan("bob"), plan("team-lead")];
  assert.deepEqual(ofSnapshot({ team, questions }).questions, [plan("team-lead")]);
});

test("tasks name the current task of their owner, and unknown events only count", () => {
  const task = { id: "10", subject: "mend", owner: "bob", status: "in_progress" };
  const hidden = { id: "2", subject: "x", metadata: { _internal: true } };
  const state = after({ tasks: [task, { id: "9", subject: "a" }, hidden] }, { of_tomorrow: {} });
  assert.deepEqual(
    state.tasks.map(({ id }) => id),
    ["9", "10"],
  );
  assert.deepEqual([state.team.agents[0].task, state.next_seq], [{ id: "10", subject: "mend" }, 2]);
});

test("agents, calls and models can have the names of what every object has", () => {
  for (const name of ["constructor", "__proto__", "toString", "hasOwnProperty"]) {
    const start = ofSnapshot({ next_seq: 0, team: { team: "work", agents: [{ ...AGENT, name }] } });
    const folded = (/** @type {any[]} */ ...whats) =>
      whats.reduce((state, what, seq) => fold(state, { seq, at_ms: 0, what }), start);
    const text = { run: { agent: name, event: "text_delta", text: "Hel" } };
    assert.equal(start.writing.get(name), undefined);
    assert.deepEqual([...folded(text, text).writing], [[name, "HelHel"]]);
    assert.equal(folded({ run: { agent: name, event: "answered" } }).writing.size, 0);
    const asked = { run: { agent: name, event: "permission_asked", call: name, tool: name } };
    const answered = { run: { agent: name, event: "permission_answered", call: name } };
    const asks = (/** @type {any} */ state) => Object.entries(state.team.agents[0].asks);
    assert.deepEqual(asks(folded(asked)), [[name, name]]);
    assert.deepEqual(asks(folded(asked, answered)), []);
    const agents = [{ name, model: name, state: "completed" }];
    const models = { [name]: { is_unpriced: true } };
    const end = { team: "work", end: { kind: "success" }, agents };
    const isPriced = (/** @type {any} */ ended) => folded({ ended }).team.agents[0].has_price;
    assert.deepEqual([isPriced({ ...end, totals: { models } }), isPriced(end)], [false, true]);
    const timeline = new log.Log();
    assert.equal(timeline.mail.value.get(name), undefined);
    timeline.add([{ kind: "mail", agent: name, to: [name], text: "hi" }]);
    assert.deepEqual([...timeline.mail.value.keys()], [name]);
    assert.deepEqual(layers(layOut(tasks({ [name]: [], a: [name] }))).a, 1);
  }
});

test("the texts that another tab passes on are kept, and those of another form are not", () => {
  const writing = new Map([["bob", "Hel"]]);
  assert.equal(ofSnapshot({ writing }).writing, writing);
  assert.equal(ofSnapshot({ writing: { bob: "Hel" } }).writing.size, 0);
});

test("an agent that did not change keeps its object", () => {
  const before = after({ config: { name: "work", members: [{ name: "eve" }, { name: "bob" }] } });
  const event = { seq: 1, at_ms: 0, what: run({ event: "mode_changed", mode: "plan" }) };
  const [eve, bob] = fold(before, event).team.agents;
  assert.equal(eve, before.team.agents[0]);
  assert.equal(bob.mode, "plan");
});

/** @param {Record<string, string[]>} blockedBy */
function tasks(blockedBy) {
  return Object.entries(blockedBy).map(([id, blockers]) => ({ id, blockedBy: blockers }));
}

/** @param {any} layout */
function layers({ placed }) {
  return Object.fromEntries(placed.filter((it) => !it.isLane).map(({ id, layer }) => [id, layer]));
}

test("a task is in a later layer than all tasks that block it", () => {
  const layout = layOut(tasks({ 4: ["1", "2", "3"], 3: ["1"], 1: [], 2: [] }));
  assert.deepEqual(layers(layout), { 1: 0, 2: 0, 3: 1, 4: 2 });
  const far = layout.ways
    .filter(({ by }) => by.length > 0)
    .map(({ from, to, by }) => [from, to, by.length]);
  assert.deepEqual(far.sort(), [
    ["1", "4", 1],
    ["2", "4", 1],
  ]);
  assert.equal(layout.placed.filter((it) => it.isLane).length, 1, "both share one lane");
});

test("a circle, a missing task and a long chain of tasks are laid out", () => {
  const circle = layOut(tasks({ 1: ["3", "1"], 2: ["1"], 3: ["2", "99"] }));
  assert.deepEqual(Object.keys(layers(circle)), ["1", "2", "3"]);
  const chain = Array.from({ length: 5_000 }, (_, n) => ({ id: `${n}`, blockedBy: [`${n + 1}`] }));
  assert.equal(layOut(chain).layers, 5_000);
});

test("tasks are placed so that their dependencies do not cross without need", () => {
  const { placed } = layOut(tasks({ 1: [], 2: [], 3: ["2"], 4: ["1"] }));
  /** @param {string} id */
  const place = (id) => placed.find((it) => it.id === id).place;
  assert.equal(place("1") < place("2"), place("4") < place("3"));
});

test("a diff has the numbers of its lines, and a comment quotes its line", () => {
  const diff = "--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n a\n-b\n+++c\n\\ No newline at end of file\n";
  const lines = linesOf(diff);
  assert.deepEqual(
    lines.map(({ kind, line, text }) => `${kind} ${line} ${text}`),
    [
      "hunk null @@ -3,2 +3,2 @@",
      "same 3 a",
      "removed 4 b",
      "added 4 ++c",
      "note null No newline at end of file",
    ],
  );
  assert.equal(comment("f", lines[3], "why?"), "Review of f, line 4:\n> ++c\n\nwhy?");
});

test("a branch has changes that are not committed only if there are such files", () => {
  assert.deepEqual(
    [undefined, [], ["a.txt"], ["a.txt", "b.txt"]].map((files) => notCommitted(files)),
    ["", "", ", 1 file not committed", ", 2 files not committed"],
  );
});

test("a message to one agent is at its card, one to the team is in the banner", () => {
  const timeline = new log.Log();
  const mail = { happened: "mail", from: "team-lead", kind: "message", summary: null, text: "go" };
  timeline.add([{ line: 1, what: { ...mail, to: { agent: "bob" } } }]);
  timeline.add([{ line: 2, what: { ...mail, to: { team: ["bob", "eve"] }, text: "stop" } }]);
  timeline.add([
    { kind: "mail", agent: "eve", to: ["team-lead"], text: "writes to team-lead: done" },
  ]);
  assert.equal(timeline.mail.value.get("bob").text, "to @bob: go");
  assert.equal(timeline.mail.value.get("team-lead").agent, "eve");
  assert.equal(timeline.banner.value.text, "to @team (bob, eve): stop");
  const found = (/** @type {any} */ filter) =>
    new log.Matches(timeline).of(filter).map(({ n }) => n);
  assert.deepEqual(found({ group: "all", words: "" }), [0, 1, 2]);
  assert.deepEqual(found({ group: "mail", words: "@eve done" }), [2]);
  assert.deepEqual(found({ group: "tasks", words: "" }), []);
});

test("a comment on a line is shown by its remark, and keeps its whole text", () => {
  const content = comment("src/a.rs", { kind: "added", text: "let a = $&;", line: 3 }, "why\n$&?");
  const timeline = new log.Log();
  const text = "writes to bob: Review of src/a.rs, line 3:";
  timeline.add([{ kind: "mail", agent: "user", to: ["bob"], text, content }]);
  const [entry] = timeline.entries;
  assert.equal(entry.text, `${text} why | $&?`);
  assert.equal(timeline.mail.value.get("bob").summary, "Review of src/a.rs, line 3: why | $&?");
  assert.equal(entry.content, content);
});

test("the name of a model keeps its beginning and its end", () => {
  assert.equal(words.shortModel("claude-opus-4-6"), "claude-opus-4-6");
  const long = words.shortModel("script:/home/someone/with/a/long/path/team.yaml");
  assert.equal(long.length, 34);
  assert.match(long, /^script:\/….*path\/team\.yaml$/);
});

test("an entry that the server inserts late is added once, and a broadcast gets its receivers", () => {
  const timeline = new log.Log();
  const said = { at_ms: 5, kind: "mail", event: "message", agent: "eve", content: "hi" };
  const first = { at_ms: 1, kind: "task", event: "task_created", agent: "eve", text: "creates" };
  timeline.merge([first, { ...said, to: ["bob"], text: "writes to bob: hi" }]);
  const late = { ...first, at_ms: 0, text: "was late" };
  timeline.merge([late, first, { ...said, to: ["bob", "ann"], text: "writes to bob, ann: hi" }]);
  const texts = timeline.entries.map((/** @type {any} */ entry) => entry.text);
  assert.deepEqual(texts, ["creates", "writes to bob, ann: hi", "was late"]);
  assert.deepEqual(timeline.banner.value.to, ["bob", "ann"]);
  timeline.merge(Array.from({ length: 9_000 }, (_, n) => ({ ...first, at_ms: n + 10 })));
  assert.deepEqual([timeline.entries.length, timeline.known.size], [9_003, 3_000]);
});

test("a filter reads each entry once, and hides the details", () => {
  const timeline = new log.Log();
  const matches = new log.Matches(timeline);
  const all = { group: "all", words: "" };
  timeline.add([
    { kind: "turn", text: "a" },
    { kind: "task", text: "b" },
  ]);
  assert.equal(matches.of(all).length, 1);
  timeline.add([{ kind: "task", text: "c" }]);
  assert.deepEqual([matches.of(all).length, matches.read], [2, 3]);
  assert.equal(matches.of({ group: "details", words: "" }).length, 1);
});

test("a text is read when all of its height was visible", () => {
  let seen = reading.add([], [0, 100]);
  assert.equal(reading.unseen(seen, 250), 150);
  seen = reading.add(seen, [200, 250]);
  assert.equal(reading.unseen(seen, 250), 100);
  seen = reading.add(seen, [90, 205]);
  assert.deepEqual([seen, reading.unseen(seen, 250)], [[[0, 250]], 0]);
});

test("a list has only the visible rows in the document", () => {
  assert.deepEqual(list.range(0, 300, 30, 100_000), { first: 0, last: 18 });
  assert.deepEqual(list.range(2_999_700, 300, 30, 100_000), { first: 99_982, last: 100_000 });
  assert.deepEqual(list.range(500, 300, 30, 3), { first: 3, last: 3 });
  assert.deepEqual(
    ["ArrowUp", "Home", "End", "x"].map((key) => list.moved(key, 5, 10, 20)),
    [4, 0, 19, null],
  );
});

test("the assets of the page name no other origin", () => {
  for (const file of readdirSync(PAGE, { recursive: true, withFileTypes: true })) {
    if (!file.isFile() || /\.(md|d\.ts)$/.test(file.name)) continue;
    const text = readFileSync(`${file.parentPath}/${file.name}`, "utf8");
    const named = text.match(/https?:\/\/[^\s"'`)]+/g) ?? [];
    // The namespaces of SVG and MathML are names, not addresses.
    assert.deepEqual(
      named.filter((it) => !it.startsWith("http://www.w3.org/")),
      [],
      file.name,
    );
    const isOurs = !file.parentPath.endsWith("vendor");
    if (isOurs)
      assert.doesNotMatch(text, /innerHTML|outerHTML|AdjacentHTML|document\.write/i, file.name);
  }
});

test("a request that is sent again keeps its key until it ends or has another body", () => {
  const key = new RequestKey();
  /** @param {string} content */
  const of = (content) => key.of({ to: "bob", content })["idempotency-key"];
  const first = of("one");
  assert.equal(of("one"), first);
  const other = of("two");
  assert.notEqual(other, first);
  key.end();
  assert.notEqual(of("two"), other);
});
