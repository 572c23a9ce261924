// The tests in a real browser, on a running server. Without one they are skipped: `browser.rs`
// starts it.

import { test } from "node:test";

if (process.env.PITCREW_REPLAYS) {
  await import("./exported.mjs");
} else if (process.env.PITCREW_PROGRAM) {
  await import("./replay.mjs");
} else if (process.env.PITCREW_LINK && process.env.PITCREW_DEMO) {
  await import("./demo.mjs");
} else if (process.env.PITCREW_LINK) {
  if (process.env.PITCREW_STATES) {
    await import("./scenarios.mjs");
    await import("./views.mjs");
    await import("./first_use.mjs");
    await import("./named.mjs");
    await import("./teams.mjs");
  }
  await import("./live.mjs");
} else {
  test("the page in a browser", { skip: "PITCREW_LINK is not set" }, () => {});
}
