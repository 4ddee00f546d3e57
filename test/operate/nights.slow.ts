import { expect, test } from "vitest";
import { sized } from "../support/test-size.ts";
import { runNights } from "./run-nights.ts";

const NIGHTS = sized(12, 90);

// Every night waits for the work of two schedulers, and every kill for a lock to expire.
test(`${NIGHTS} nights with two schedulers, faults, kills and both changes of the clock: none missed, none doubled`, async () => {
  const nights = sized({ from: "2026-03-26", killEvery: 4 }, { from: "2026-02-15", killEvery: 7 });
  expect(await runNights({ nights: NIGHTS, ...nights })).toBeGreaterThanOrEqual(sized(2, 10));
}, 1_800_000);
