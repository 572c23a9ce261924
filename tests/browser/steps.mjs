// The steps that the tests with a living team share. They click on a desk and touch on a phone.

import assert from "node:assert/strict";
import { DESK, PHONE, given, shot as pictured } from "./browser.mjs";

/** @typedef {import("playwright-core").Page} Page */

export const DEVICE = given.device === "phone" ? PHONE : DESK;
export const isTouch = DEVICE === PHONE;

/** The page must show an answer of the agents within this time, in milliseconds. */
export const PATIENCE = 30_000;

/** @param {Page} page @param {string} name */
export const shot = (page, name) => pictured(page, `${given.device}-${name}`);

/**
 * Clicks or touches a part of the page.
 * @param {import("playwright-core").Locator} part
 * @param {any} [options]
 */
export function press(part, options) {
  return isTouch ? part.tap(options) : part.click(options);
}

/**
 * @param {Page} page
 * @param {string | RegExp} name
 */
export function view(page, name) {
  return press(page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }));
}

/**
 * Moves a finger from the left to the right over a part of the page.
 * @param {Page} page
 * @param {import("playwright-core").Locator} part
 */
export async function swipe(page, part) {
  const box = await part.boundingBox();
  assert.ok(box);
  const session = await page.context().newCDPSession(page);
  const y = box.y + 20;
  for (const [type, at] of /** @type {const} */ ([
    ["touchStart", 60],
    ["touchMove", 150],
    ["touchMove", 260],
    ["touchEnd", 0],
  ])) {
    const touchPoints = type === "touchEnd" ? [] : [{ x: at, y }];
    await session.send("Input.dispatchTouchEvent", { type, touchPoints });
  }
  await session.detach();
}

/**
 * Scrolls a box to one place after the other. It waits at each place until the browser has drawn it
 * and the page has learned of it, because a busy machine draws late.
 * @param {Element} box
 * @param {number[]} tops
 */
export async function readTo(box, tops) {
  const frame = () => new Promise((drawn) => requestAnimationFrame(drawn));
  for (const top of tops) {
    box.scrollTo(0, top);
    for (let n = 0; n < 3; n += 1) await frame();
  }
}
