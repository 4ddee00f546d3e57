import { expect, test } from "vitest";
import { runNights } from "./run-nights.ts";

test("12 nights with two schedulers, faults, kills and both changes of the clock: none missed, none doubled", async () => {
  expect(await runNights({ nights: 12, from: "2026-03-26", killEvery: 4 })).toBeGreaterThanOrEqual(2);
});
