import { expect, test, vi } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { spendHistory, type Totals } from "./history.ts";

vi.mock(import("../../src/crash-point.ts"), async () => ({
  crashPoint: (await import("./life.ts")).crashPoint,
}));

test("random nights keep the laws of the reference model", async () => {
  const totals: Totals = { seeds: 0, nights: 0, runs: 0, sent: 0, kills: 0, checks: 0 };
  const seed = testSeed();
  for (let i = 0; i < Number(process.env["MODEL_SEEDS"] ?? 2); i += 1)
    await spendHistory(seed + i, Number(process.env["MODEL_NIGHTS"] ?? 10), totals);
  expect(totals.nights).toBeGreaterThan(0);
  console.log(JSON.stringify(totals));
}, 600_000);
