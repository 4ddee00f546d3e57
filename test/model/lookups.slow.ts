import { afterAll, describe, expect, test, vi } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { sized } from "../support/test-size.ts";
import { noTotals, spendHistory } from "./history.ts";

vi.mock(import("../../src/crash-point.ts"), async () => ({
  crashPoint: (await import("./life.ts")).crashPoint,
}));

const FIRST = testSeed();
const SEEDS = Array.from({ length: sized(16, 80) }, (_, i) => FIRST + i);
const NIGHTS = sized(20, 60);

const totals = noTotals();
afterAll(() => {
  const figures = Object.entries(totals).map(([name, count]) => `${count} ${name}`);
  process.stdout.write(`lookups against the reference model, from seed ${FIRST}: ${figures.join(", ")}\n`);
});

describe("lookups do what the reference model does, in random nights", () => {
  test.each(SEEDS)("of seed %i", async (seed) => {
    const before = totals.nights;
    await spendHistory(seed, NIGHTS, totals);
    expect(totals.nights - before).toBe(NIGHTS);
  });
});
