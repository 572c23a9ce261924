// Tests of the modules of a replay that need no browser: the moments, and the addresses.

import assert from "node:assert/strict";
import { test } from "node:test";

// The addresses are read from the browser's location.
Object.assign(globalThis, { location: { hash: "" }, addEventListener() {} });
const PAGE = new URL("../../crates/web/page/", import.meta.url);
/** @param {string} name */
const module = (name) => import(new URL(name, PAGE).href);
const [{ Recording, FRAME_EVENTS, below }, { ALL, Log, Matches, matcher }, { parse, link }, ...others] =
  await Promise.all(
    ["moment.js", "log.js", "route.js", "replaying.js", "cards.js"].map(module),
  );
const [{ ReplayStore }, { groupOf, needs }] = others;

/** @param {Partial<Recorded> & {events: TimedEvent[]}} given */
function recording(given) {
  return new Recording({
    name: "s",
    clock: "lines",
    from_ms: given.events[0]?.at_ms ?? 0,
    to_ms: given.events.at(-1)?.at_ms ?? 0,
    first: {},
    left_out: 0,
    unread: [],
    ...given,
  });
}

/** @param {TimedEvent["what"][]} whats one for each second */
const timed = (...whats) => whats.map((what, seq) => ({ seq, at_ms: 1_000 * (seq + 1), what }));

const bob = { name: "bob", status: "running", turns: 0, usage: {}, asks: {} };

test("a moment has the fields that the events before it told", () => {
  const it = recording({
    events: timed(
      { changed: { team: { team: "work" }, agents: [bob, { ...bob, name: "ann" }] } },
      { changed: { agents: [{ name: "bob", turns: 2 }], tasks: [task("10"), task("9")] } },
      { changed: { order: ["ann"], tasks: [task("9", "completed")], tasks_gone: ["10"] } },
    ),
  });
  const names = (/** @type {number} */ count) =>
    it.moment(count).host.team.agents.map((/** @type {any} */ agent) => agent.name);
  assert.deepEqual([0, 1, 2, 3].map(names), [[], ["bob", "ann"], ["bob", "ann"], ["ann"]]);
  assert.equal(it.moment(2).host.team.agents[0].turns, 2);
  assert.equal(it.moment(1).host.team.agents[0].turns, 0);
  const tasks = (/** @type {number} */ count) =>
    it.moment(count).host.tasks.map((/** @type {any} */ task) => `${task.id} ${task.status}`);
  assert.deepEqual(tasks(2), ["9 pending", "10 pending"]);
  assert.deepEqual(tasks(3), ["9 completed"]);
  assert.deepEqual(
    [0, 999, 1_000, 2_500, 9_000].map((ms) => it.countAt(ms)),
    [0, 0, 1, 2, 3],
  );
});

test("an agent that asks for a permission needs a person at that moment, and only then", () => {
  const it = recording({
    events: timed(
      { changed: { agents: [bob] } },
      { changed: { agents: [{ name: "bob", asks: { c1: "Write" } }] } },
      { changed: { agents: [{ name: "bob", asks: {} }] } },
    ),
  });
  const shown = [1, 2, 3].map((count) => {
    const { team, questions } = it.moment(count).host;
    return [groupOf(team.agents[0], questions, []), needs(team.agents[0], questions, [])];
  });
  const works = ["working", ""];
  assert.deepEqual(shown, [works, ["input", "asks permission for Write"], works]);
});

test("a replay is opened at its end, or at the moment of its address", () => {
  const events = timed({}, {}, {});
  const given = { name: "s", clock: "lines", from_ms: 1_000, to_ms: 3_000, events };
  const opened = (/** @type {number | null} */ at) => {
    const store = new ReplayStore("s", { ...given, first: {}, left_out: 0, unread: [] }, at);
    store.close();
    return [store.now.value, store.count];
  };
  assert.deepEqual([null, 2_000, 9_000].map(opened), [
    [3_000, 3],
    [2_000, 2],
    [3_000, 3],
  ]);
});

/**
 * Opens a stream of which no line has come, and adds lines.
 * @param {"recorded" | "lines"} clock
 * @param {number | null} [at]
 */
function waiting(clock, at = null) {
  const nothing = { first: {}, events: [], left_out: 0, unread: [], is_live: true };
  const store = new ReplayStore("s", { name: "s", clock, from_ms: 0, to_ms: 0, ...nothing }, at);
  store.close();
  const shown = () => [store.recording.from, store.now.value, store.to.value, store.count];
  return { store, shown };
}

for (const clock of /** @type {const} */ (["recorded", "lines"])) {
  test(`a stream of ${clock} begins at its first line, also if it was opened before`, () => {
    const { store, shown } = waiting(clock);
    assert.deepEqual([store.recording.isEmpty, shown()], [true, [0, 0, 0, 0]]);
    const events = timed({}, {}, {}).map((it) => ({ ...it, at_ms: it.at_ms + 1_795_000_000_000 }));
    const [first = 0, second] = events.map((it) => it.at_ms);
    store.add(events.slice(0, 1));
    assert.deepEqual([store.recording.isEmpty, shown()], [false, [first, first, first, 1]]);
    store.add(events.slice(1, 2));
    assert.deepEqual(shown(), [first, second, second, 2], "it is followed");
    store.seek(0);
    assert.deepEqual(shown(), [first, first, second, 1], "nothing is before the first line");
  });
}

test("a stream that was opened before its first line goes to the moment of its address", () => {
  const { store, shown } = waiting("recorded", 2_000);
  const events = timed({}, {}, {});
  store.add(events);
  assert.deepEqual([shown(), store.isFollowing.value], [[1_000, 2_000, 3_000, 2], false]);
});

test("a file that grows is followed from its end, and a moment before it stays", () => {
  const [first, second, third, ...rest] = timed({}, {}, {}, {});
  const given = { name: "s", clock: "lines", from_ms: 1_000, to_ms: 1_000, is_live: true };
  const events = [first];
  const store = new ReplayStore("s", { ...given, events, first: {}, left_out: 0, unread: [] }, null);
  store.close();
  assert.deepEqual([store.now.value, store.hasGrown.value], [1_000, false]);
  store.add([second]);
  assert.deepEqual([store.now.value, store.hasGrown.value], [2_000, true]);
  store.seek(1_000);
  store.add([third]);
  assert.equal(store.now.value, 1_000);
  store.seek(store.recording.to);
  store.add(rest);
  assert.equal(store.now.value, 4_000);
});

/** @param {string} id @param {string} [status] */
function task(id, status = "pending") {
  return { id, subject: id, description: "", status, blocks: [], blockedBy: [] };
}

test("a conversation has the parts and the results of then", () => {
  const call = { part: "call", tool: "Bash", input: {}, result: null };
  const it = recording({
    events: timed(
      { part: { agent: "bob", n: 0, part: { part: "prompt", text: "go" } } },
      { part: { agent: "bob", n: 1, part: call } },
      { call: { agent: "bob", n: 1, fields: { result: { text: "ok", is_error: false } } } },
    ),
  });
  assert.deepEqual(it.parts("bob", 2), [{ part: "prompt", text: "go" }, call]);
  assert.equal(it.parts("bob", 3)[1].result.text, "ok");
  assert.deepEqual([it.parts("bob", 0), it.parts("ann", 3)], [[], []]);
});

test("the banner, the mail and the neighbours are those of the timeline", () => {
  const mail = (/** @type {any} */ to) => ({
    happened: { line: 1, what: { happened: "mail", from: "ann", to, kind: "message", text: "hi" } },
  });
  const it = recording({
    events: timed({}, mail({ agent: "bob" }), {}, mail({ team: ["bob", "cat"] }), {}),
  });
  assert.deepEqual([...it.moment(2).mail.keys()], ["bob"]);
  assert.equal(it.moment(3).banner, null);
  assert.deepEqual(it.moment(4).banner.to, ["bob", "cat"]);
  const all = matcher(ALL);
  const steps = [1_000, 2_000, 4_000].map((ms) => it.neighbour(ms, 1, all));
  assert.deepEqual(steps, [2_000, 4_000, 5_000]);
  assert.deepEqual([5_000, 2_000].map((ms) => it.neighbour(ms, -1, all)), [4_000, 1_000]);
});

test("a step goes over the entries that the timeline does not show", () => {
  const entry = (/** @type {string} */ kind, /** @type {string} */ text) => ({
    happened: { line: 1, what: { kind, agent: "bob", text } },
  });
  const it = recording({
    events: timed(entry("task", "a"), entry("turn", "b"), entry("mail", "c"), entry("task", "d"), {}),
  });
  const steps = (/** @type {Partial<Filter>} */ filter, /** @type {1 | -1} */ step) =>
    [1_000, 3_000, 5_000].map((ms) => it.neighbour(ms, step, matcher({ ...ALL, ...filter })));
  assert.deepEqual(steps({}, 1), [3_000, 4_000, 5_000]);
  assert.deepEqual(steps({}, -1), [1_000, 1_000, 4_000]);
  assert.deepEqual(steps({ group: "tasks" }, 1), [4_000, 4_000, 5_000]);
  assert.deepEqual(steps({ group: "details" }, -1), [1_000, 2_000, 2_000]);
  assert.deepEqual(steps({ words: "@bob d" }, 1), [4_000, 4_000, 5_000]);
});

test("events that come later are added, and one that is known is not", () => {
  const events = timed({}, {}, { changed: { team: { team: "work" } } });
  const it = recording({ events: events.slice(0, 2) });
  it.moment(2);
  it.add(events.slice(1));
  assert.equal(it.next, 3);
  assert.equal(it.moment(3).host.team.team, "work");
});

test("in 100,000 events a jump takes a few milliseconds, and the timeline goes back", () => {
  const agents = Array.from({ length: 50 }, (_, n) => ({ ...bob, name: `agent-${n}` }));
  const events = timed(
    { changed: { agents } },
    ...Array.from({ length: 99_999 }, (_, n) =>
      n % 2
        ? { changed: { agents: [{ name: `agent-${n % 50}`, turns: n }] } }
        : { happened: { line: n, what: { happened: "said", agent: "agent-1", text: `${n}` } } },
    ),
  );
  const it = recording({ events });
  while (it.prepare(50));
  assert.equal(it.frames.length, Math.floor(100_000 / FRAME_EVENTS) + 1);
  const jumps = Array.from({ length: 200 }, (_, n) => {
    const began = performance.now();
    it.moment((n * 7_919 * 31) % 100_000);
    return performance.now() - began;
  });
  jumps.sort((a, b) => a - b);
  assert.ok((jumps[100] ?? Infinity) < 5, `${jumps[100]} ms`);

  const log = new Log();
  const matches = new Matches(log);
  const count = (/** @type {number} */ entries) => {
    log.entries = it.entries.slice(0, entries);
    return matches.of({ group: "texts", words: "" }).length;
  };
  assert.deepEqual([40_000, 10, 20, 0, 30].map(count), [40_000, 10, 20, 0, 30]);
});

test("the first index for which a test is false is found", () => {
  assert.deepEqual(
    [0, 1, 5, 9].map((most) => below(5, (n) => n < most)),
    [0, 1, 5, 5],
  );
});

test("a replay that is paused and played again within a frame plays once", () => {
  /** The functions that wait for the next frame. @type {Map<number, (time: number) => void>} */
  const frames = new Map();
  let next = 1;
  Object.assign(globalThis, {
    matchMedia: () => ({ matches: false }),
    requestAnimationFrame: (/** @type {(time: number) => void} */ run) => {
      frames.set(next, run);
      return next++;
    },
    cancelAnimationFrame: (/** @type {number} */ id) => frames.delete(id),
  });
  const given = { name: "s", clock: "lines", from_ms: 0, events: [], left_out: 0, unread: [] };
  const events = [1_000, 60_000].map((at_ms, seq) => ({ seq, at_ms, what: {} }));
  const store = new ReplayStore("s", { ...given, first: {}, events, to_ms: 60_000 }, 0);
  store.toggle();
  assert.equal(frames.size, 1);
  store.toggle();
  assert.equal(frames.size, 0);
  store.toggle();
  assert.equal(frames.size, 1);
  store.close();
  assert.equal(frames.size, 0);
});

test("an address names a view, or a moment of a replay, and leads back to it", () => {
  const team = { view: "team", name: "", at: null };
  for (const [hash, wanted] of /** @type {[string, any][]} */ ([
    ["", { ...team, team: "" }],
    ["#/work", { ...team, team: "work" }],
    ["#/work/member/bob", { ...team, team: "work", view: "member", name: "bob" }],
    ["#/replay/work", { ...team, team: "replay/work" }],
    ["#/replay/work/tasks/2", { ...team, team: "replay/work", view: "tasks", name: "2" }],
    // Teams can have the name, too.
    ["#/%72eplay/tasks", { ...team, team: "replay", view: "tasks" }],
    ["#/replay", { ...team, team: "replay" }],
    ["#/replay/replay", { ...team, team: "replay/replay" }],
  ])) {
    assert.deepEqual(parse(hash), wanted, hash);
    const again = link(wanted.team, wanted.view === "team" ? "" : wanted.view, wanted.name);
    assert.deepEqual(parse(again), wanted, again);
  }
  assert.equal(parse("#/replay/work?at=1795000000000").at, 1_795_000_000_000);
  for (const query of ["at=", "at=-1", "at=x", "at=1&b=2", "at=9999999999999999"]) {
    assert.equal(parse(`#/replay/work?${query}`).at, null, query);
  }
});
