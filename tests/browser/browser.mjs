// A Chromium that is signed in to a running server. The Rust test `browser.rs` starts the server
// and passes its one-time link. Without a link it is not signed in.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { after } from "node:test";
import { chromium } from "playwright-core";

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** What the Rust test passes on. */
export const given = {
  link: process.env.PITCREW_LINK ?? "",
  states: process.env.PITCREW_STATES ?? "",
  shots: process.env.PITCREW_SHOTS ?? "",
  device: process.env.PITCREW_DEVICE ?? "desk",
  program: process.env.PITCREW_PROGRAM ?? "",
  replays: process.env.PITCREW_REPLAYS ?? "",
};

export const origin = given.link && new URL(given.link).origin;

const browser = await chromium.launch({
  executablePath: CHROMIUM.find((path) => existsSync(path)),
  // Root may not use Chromium's own sandbox.
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
after(() => browser.close());

const signedIn = given.link ? await signIn() : undefined;

/** Opens the one-time link, and returns the cookies that it gave. */
async function signIn() {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(given.link);
  assert.equal(page.url(), `${origin}/`, "the link leads to the page, and leaves no token in it");
  const state = await context.storageState();
  await context.close();
  return state;
}

export const DESK = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/**
 * Opens a page. A message of the console about an error fails the test that looks at `errors`.
 * @param {any} [options]
 * @param {string} [own] the only origin that the page may ask
 */
export async function open(options = DESK, own = origin) {
  const context = await browser.newContext({ ...options, storageState: signedIn });
  return { context, ...(await tab(context, own)) };
}

/**
 * @param {import("playwright-core").BrowserContext} context
 * @param {string} [own]
 */
export async function tab(context, own = origin) {
  const page = await context.newPage();
  /** @type {string[]} */
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // The text of a failed request does not name its address.
    if (message.type() === "error") errors.push(`${message.text()} ${message.location().url}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(own)) errors.push(`a request to ${request.url()}`);
  });
  page.setDefaultTimeout(20_000);
  return { page, errors };
}

/**
 * @param {import("playwright-core").Page} page
 * @param {string} name
 */
export async function shot(page, name) {
  if (given.shots === "") return;
  mkdirSync(given.shots, { recursive: true });
  await page.screenshot({ path: `${given.shots}/${name}.png` });
}

/** @param {string} name */
export function states(name) {
  return JSON.parse(readFileSync(`${given.states}/${name}.json`, "utf8"));
}

const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/**
 * Returns what axe-core finds on a page in both themes.
 * @param {import("playwright-core").Page} page
 * @returns {Promise<string[]>}
 */
export async function violationsInBothThemes(page) {
  const found = [];
  for (const colorScheme of /** @type {const} */ (["dark", "light"])) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    found.push(...(await violations(page)).map((it) => `${colorScheme}: ${it}`));
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  return found;
}

/**
 * Returns what axe-core finds on a page.
 * @param {import("playwright-core").Page} page
 * @returns {Promise<string[]>}
 */
export async function violations(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run());
  return found.violations.flatMap((/** @type {any} */ rule) =>
    rule.nodes.map(
      (/** @type {any} */ node) => `${rule.id}: ${node.target} ${node.failureSummary}`,
    ),
  );
}
