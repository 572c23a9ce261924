// Files of `pitcrew export --html`, opened from the disk. The Rust test `browser_export.rs` makes
// them: one of the demo, and one with keys and with texts that try to be HTML.

import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { DESK, PHONE, given, open, shot, violations } from "./browser.mjs";
import { agentsAreShown } from "./names.mjs";

/** @typedef {import("playwright-core").Page} Page */

/**
 * Opens a file. Every request beside the file itself is an error, and so is a line on the console.
 * @param {string} name
 * @param {any} [options]
 */
async function opened(name, options = DESK) {
  const url = pathToFileURL(`${given.replays}/${name}.html`).href;
  const { page, context, errors } = await open(options, url);
  let loads = 0;
  page.on("request", () => (loads += 1));
  page.on("dialog", (dialog) => {
    errors.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  await scrubber(page).waitFor();
  /** Checks that nothing failed and that nothing but the file was asked for. */
  async function close() {
    assert.deepEqual(errors, []);
    assert.equal(loads, 1, "the file is the only request");
    await context.close();
  }
  return { page, url, close };
}

/** @param {Page} page */
const scrubber = (page) => page.getByRole("slider", { name: "Moment" });

/** @param {Page} page */
const summary = (page) => page.getByRole("region", { name: "Session summary" });

/** @param {Page} page */
const completedTasks = (page) => page.locator(".node.completed").count();

test("the run of the demo is scrubbed", async () => {
  const { page, url, close } = await opened("demo");
  await summary(page).waitFor();
  await scrubber(page).press("Home");
  await summary(page).waitFor({ state: "detached" });
  assert.equal(await page.locator(".card").count(), 1);
  await scrubber(page).press("End");
  await summary(page).waitFor();
  const cards = await page.locator(".card h3 a").allInnerTexts();
  assert.deepEqual(cards.sort(), ["bob", "cleo", "team-lead", "wanda"]);
  const all = Number(await page.getByLabel("Number of entries").innerText());

  const most = Number(await scrubber(page).getAttribute("max"));
  await scrubber(page).fill(String(Math.floor(most / 2)));
  await summary(page).waitFor({ state: "detached" });
  const half = Number(await page.getByLabel("Number of entries").innerText());
  assert.ok(half > 0 && half < all, `${half} of ${all} entries`);

  await page.goto(`${url}#/replay/view/tasks`);
  await scrubber(page).press("End");
  await page.locator(".node").first().waitFor();
  assert.equal(await page.locator(".node").count(), 4);
  assert.equal(await completedTasks(page), 4);
  // On a busy machine, all tasks can be done in the first half of the time.
  await scrubber(page).fill("1");
  await page.waitForFunction(() => document.querySelectorAll(".node.completed").length < 4);
  await close();
});

test("the run of the demo is played at 100x, from its beginning to its end", async () => {
  const { page, close } = await opened("demo");
  await page.getByLabel("Speed").selectOption("100");
  await summary(page).waitFor();
  const isGone = summaryIsGone(page);
  await page.getByRole("button", { name: "Play" }).click();
  // The replay was open at its end.
  await isGone;
  await summary(page).waitFor();
  // At its end the replay rests.
  await page.getByRole("button", { name: "Play" }).waitFor();
  const { value, max } = await scrubber(page).evaluate((it) => /** @type {any} */ (it));
  assert.equal(value, max);
  await close();
});

/**
 * Waits until the summary is gone. A short run is over within milliseconds, so the page itself looks.
 * @param {Page} page
 */
function summaryIsGone(page) {
  return page.evaluate(
    () =>
      new Promise((gone) => {
        const observer = new MutationObserver(() => {
          if (document.querySelector(".summary")) return;
          observer.disconnect();
          gone(null);
        });
        observer.observe(document.body, { childList: true, subtree: true });
      }),
  );
}

test("a link leads to a moment of a file and to a view", async () => {
  const { page, url, close } = await opened("demo");
  const { from_ms } = JSON.parse((await page.locator("#replay").textContent()) ?? "");
  await scrubber(page).press("End");
  await page.getByRole("button", { name: "Copy link to this moment" }).click();
  // Where a file has no right to the clipboard, the address is on the page.
  await page.waitForFunction(() => document.querySelector(".player .said")?.textContent !== "");
  const said = await page.locator(".player .said").innerText();
  const to = Math.round(from_ms) + Number(await scrubber(page).inputValue());
  assert.ok(["Copied.", `${url}#/replay/view?at=${to}`].includes(said), said);
  const half = Math.floor((to - from_ms) / 2);
  await page.goto(`${url}#/replay/view/tasks?at=${from_ms + half}`);
  await page.locator(".node").first().waitFor();
  assert.equal(await scrubber(page).inputValue(), String(half));
  await close();
});

test("texts that try to be HTML are shown as texts, and the file says what was masked", async () => {
  const { page, url, close } = await opened("work");
  await page.getByText(/Masked in this file: .*GitHub token/).waitFor();
  await page.goto(`${url}#/replay/view/member/bob`);
  await scrubber(page).press("End");
  const text = page.getByText("I write it. </script><script>alert(1)</script><!-- <img");
  await text.first().waitFor();
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("script").count(), 2);
  await close();
});

test("agents of a file can have the names of what every object has", async () => {
  const { page, url, close } = await opened("names");
  await scrubber(page).press("End");
  await agentsAreShown(page, `${url}#/replay/view`);
  await page.goto(`${url}#/replay/view/tasks`);
  await page.locator(".node.completed", { hasText: "__proto__" }).waitFor();
  await page.goto(`${url}#/replay/view`);
  await scrubber(page).press("Home");
  const mail = page.getByRole("article", { name: "__proto__", exact: true }).locator(".mail");
  for (let n = 0; n < 100 && (await mail.count()) === 0; n += 1) {
    await scrubber(page).press("ArrowRight");
  }
  assert.match(await mail.innerText(), /^team-lead/);
  await close();
});

for (const [size, device] of /** @type {const} */ ([
  ["wide", DESK],
  ["narrow", PHONE],
])) {
  for (const colorScheme of /** @type {const} */ (["dark", "light"])) {
    test(`no view of a file has a fault on a ${size} screen in ${colorScheme}`, async () => {
      const { page, url, close } = await opened("demo", { ...device, colorScheme });
      await scrubber(page).press("End");
      for (const name of ["", "/tasks", "/timeline", "/member/bob"]) {
        await page.goto(`${url}#/replay/view${name}`);
        await page.locator("main > *").first().waitFor();
        assert.deepEqual(await violations(page), [], `${name} ${size} ${colorScheme}`);
        const wide = await page.evaluate(
          () => document.documentElement.scrollWidth - screen.width,
        );
        assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
      }
      await page.goto(`${url}#/replay/view`);
      await shot(page, `exported-${size}-${colorScheme}`);
      await close();
    });
  }
}
