import { expect, test, vi } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { noTotals, spendHistory } from "./history.ts";

vi.mock(import("../../src/crash-point.ts"), async () => ({
  crashPoint: (await import("./life.ts")).crashPoint,
}));

const SEEDS = 2;
const NIGHTS = 6;

test("lookups do what the reference model does, in random nights", async () => {
  const totals = noTotals();
  const seed = testSeed(206);
  for (let i = 0; i < SEEDS; i += 1) await spendHistory(seed + i, NIGHTS, totals);
  expect([totals.seeds, totals.nights]).toEqual([SEEDS, SEEDS * NIGHTS]);
  expect(Math.min(totals.sent, totals.checks)).toBeGreaterThan(0);
}, 180_000);
