import { expect, test, vi } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { sized } from "../support/test-size.ts";
import { spendHistory } from "./history.ts";
import { noTotals } from "./setting.ts";

vi.mock(import("../../src/crash-point.ts"), async () => ({
  crashPoint: (await import("./life.ts")).crashPoint,
}));

/** PERSON_ETL_TEST_SIZE=full spends long histories. */
const SEEDS = sized(2, 16);
const NIGHTS = sized(6, 20);

test(
  "lookups do what the reference model does, in random nights",
  async () => {
    const totals = noTotals();
    const seed = testSeed(206);
    for (let i = 0; i < SEEDS; i += 1) await spendHistory(seed + i, NIGHTS, totals);
    expect([totals.seeds, totals.nights]).toEqual([SEEDS, SEEDS * NIGHTS]);
    expect(Math.min(totals.sent, totals.checks)).toBeGreaterThan(0);
  },
  sized(180_000, 3_600_000),
);
