// The live page of a team whose agents, tasks, calls and models have the names of `names.mjs`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, origin } from "./browser.mjs";
import { NAMES, agentsAreShown } from "./names.mjs";
import { play } from "./played.mjs";

const [FIRST = "", SECOND = "", THIRD = ""] = NAMES;

const AGENTS = NAMES.map((name) => ({
  ...{ name, role: "teammate", status: "running", model: name, agent_type: name, mode: name },
  ...{ turns: 1, tool_calls: 0, usage: { input_tokens: 5 }, cost_usd: 0, has_price: true },
  ...{ is_counted: true, doing: null, asks: {} },
}));

const TASKS = NAMES.map((id, n) => ({
  ...{ id, subject: `Task ${n}`, description: id, status: "in_progress", owner: id },
  ...{ blocks: [], blockedBy: NAMES.slice(Math.max(0, n - 1), n) },
}));

const TEAM = { team: FIRST, lead: SECOND, agents: AGENTS, tasks: TASKS };

const LOG = NAMES.map((name, n) => ({
  ...{ at_ms: 1_000 + n, kind: "mail", event: "message", agent: name },
  ...{ to: [NAMES.at(n - 1)], text: `writes: mail of ${n}`, content: `mail of ${n}` },
}));

const QUESTION = {
  ...{ asker: SECOND, tool: THIRD, folder: "/repository", reason: "no rule allows it" },
  ...{ lines: [{ kind: "text", text: "ls" }], offers: [], digest: "d" },
};

const HAPPENED = [
  { run: { event: "text_delta", agent: FIRST, text: "Text of the first." } },
  { run: { event: "text_delta", agent: SECOND, text: "Text of the second." } },
  { run: { event: "answered", agent: SECOND, usage: {}, blocks: [] } },
  { run: { event: "permission_asked", agent: SECOND, call: SECOND, tool: THIRD } },
  { question_opened: { id: SECOND, since_ms: 0, question: QUESTION } },
];

const MODELS = NAMES.map((name) => [name, { usage: {}, cost_usd: 1, is_unpriced: name === SECOND }]);

const ENDED = {
  ended: {
    ...{ team: FIRST, end: { kind: "success" } },
    agents: AGENTS.map((agent) => ({ ...agent, state: "completed" })),
    totals: { ran_ms: 1_000, model_time_ms: 500, models: Object.fromEntries(MODELS) },
  },
};

test("agents, tasks, calls and models can have the names of what every object has", async () => {
  const { page, context, errors } = await open();
  await page.route(`${origin}/api/teams/*/members/**`, (route) =>
    route.fulfill({ json: { entries: [], total: 0 } }),
  );
  await play(page, FIRST, [TEAM], LOG, HAPPENED);
  const card = (/** @type {string} */ name) => page.getByRole("article", { name, exact: true });
  await card(FIRST).getByText("Text of the first.").waitFor();
  for (const [n, name] of NAMES.entries()) {
    // The message to the agent is that of its neighbour, unless its model writes.
    if (name !== FIRST) await card(name).getByText(`mail of ${(n + 1) % NAMES.length}`).waitFor();
    await card(name).getByText(`Task ${n}`).waitFor();
  }
  await page.getByRole("heading", { name: `${SECOND} asks permission for ${THIRD}` }).waitFor();
  await page.goto(`${origin}/#/${FIRST}/tasks/${SECOND}`);
  await page.getByRole("region", { name: `Task ${SECOND}` }).waitFor();
  assert.equal(await page.locator(".node").count(), 4);
  assert.equal(await page.locator(".edge").count(), 3);
  await page.goto(`${origin}/#/${FIRST}`);
  await agentsAreShown(page, `${origin}/#/${FIRST}`);

  await play(page, FIRST, [TEAM], LOG, [ENDED]);
  const summary = page.getByRole("region", { name: "Session summary" });
  for (const name of NAMES) {
    const row = summary.getByRole("row", { name: new RegExp(`^${name} `) });
    await row.waitFor();
    assert.equal(await row.getByText("no price").count(), name === SECOND ? 1 : 0, name);
  }
  assert.deepEqual(errors, []);
  await context.close();
});
