import { expect, test, vi } from "vitest";
import { runNights } from "./run-nights.ts";

// Every night waits for the work of two schedulers, and every kill for a lock to expire.
vi.setConfig({ testTimeout: 180_000 });

test("12 nights with two schedulers, faults, kills and both changes of the clock: none missed, none doubled", async () => {
  expect(await runNights({ nights: 12, from: "2026-03-26", killEvery: 4 })).toBeGreaterThanOrEqual(2);
});
