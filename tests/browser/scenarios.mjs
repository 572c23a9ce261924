// The five scenarios of the stream document, on its examples and on the recorded streams.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, states } from "./browser.mjs";
import { play } from "./played.mjs";

const GUIDE = states("guide");

/**
 * Opens the page on the state after the first lines of the document's examples.
 * @param {number} lines
 */
async function afterGuide(lines) {
  const { page, context, errors } = await open();
  await play(page, "guide", GUIDE.slice(0, lines));
  return { page, context, errors, card: page.getByRole("article", { name: "swift-expert" }) };
}

test("1: a started teammate yields a new card with its colour and its model", async () => {
  const before = await afterGuide(3);
  await before.page.getByRole("article", { name: "team-lead" }).waitFor();
  assert.equal(await before.card.count(), 0);
  await before.context.close();
  const { page, context, errors, card } = await afterGuide(4);
  await card.waitFor();
  assert.equal(await card.locator(".color").textContent(), "blue");
  assert.equal(await card.locator(".model").textContent(), "claude-opus-4-6");
  assert.equal(await card.locator(".type").innerText(), "general-purpose");
  assert.match((await card.getAttribute("class")) ?? "", /c-blue/);
  await page.getByText("codebase-gap-analysis").first().waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

test("2: a broadcast is a notification to the team with its receivers", async () => {
  const { page, context, card } = await afterGuide(8);
  const banner = page.getByRole("region", { name: "Message to the team" });
  await banner.waitFor();
  const said = await banner.innerText();
  assert.match(said, /@team team-lead to swift-expert, rust-expert/);
  assert.match(said, /URGENT: Write findings to file now/);
  // The direct message before it is at its card.
  assert.match(
    await card.locator(".mail").innerText(),
    /team-lead.*Requesting Swift analysis report/s,
  );
  await context.close();
});

test("3: the answer to a shutdown request makes the card say that it is shutting down", async () => {
  const { card, context } = await afterGuide(10);
  await card.waitFor();
  assert.match(await card.locator(".state").innerText(), /shutting down/);
  await context.close();
});

test("4: a failed cleanup leaves the team as it is and shows the error", async () => {
  const failed = await afterGuide(11);
  const alert = failed.page.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), /Cannot cleanup team with 2 active member\(s\)/);
  assert.doesNotMatch(await failed.page.locator(".top .state").innerText(), /cleaned_up/);
  await failed.context.close();
  const done = await afterGuide(12);
  await done.page.locator(".top .state", { hasText: "cleaned_up" }).waitFor();
  assert.equal(await done.page.getByRole("alert").count(), 0);
  await done.context.close();
});

test("5: the result shows the numbers of the session", async () => {
  const { page, context } = await afterGuide(13);
  const summary = page.getByRole("region", { name: "Session summary" });
  await summary.waitFor();
  const text = await summary.innerText();
  for (const part of [
    "success",
    "10.8 s",
    "20 min 4 s",
    "$8.56",
    "claude-opus-4-6",
    "$8.40",
    "$0.16",
  ]) {
    assert.ok(text.includes(part), `${part} in ${text}`);
  }
  await context.close();
});

for (const name of ["lifecycle", "errors"]) {
  test(`the recorded stream ${name} is shown whole`, async () => {
    const { page, context, errors } = await open();
    const all = states(name);
    const last = all.at(-1);
    await play(page, name, all);
    for (const agent of last.agents) {
      const card = page.getByRole("article", { name: agent.name, exact: true });
      await card.waitFor();
      const shown = await card.innerText();
      for (const badge of [agent.color, agent.model, agent.agent_type]) {
        if (badge) assert.ok(shown.includes(badge), `${badge} in ${shown}`);
      }
    }
    const toTeam = last.timeline.entries.filter((/** @type {any} */ it) => it.what.to?.team).at(-1);
    if (toTeam) {
      const banner = await page.getByRole("region", { name: "Message to the team" }).innerText();
      assert.ok(banner.includes(toTeam.what.to.team.join(", ")), banner);
    }
    assert.equal(await page.locator(".summary").count(), last.session ? 1 : 0);
    const count = await page.getByLabel("Number of entries").innerText();
    assert.equal(count, `${last.timeline.entries.length}`);
    assert.deepEqual(errors, []);
    await context.close();
  });
}
