import { expect, test } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { runFeedNights } from "./run-feed-nights.ts";

test("after each of 90 nights with faults and kills all feeds hold what the service says, a pause of 100 days included", async () => {
  const seed = testSeed();
  const totals = await runFeedNights({
    nights: 90,
    from: "2026-02-20",
    seed,
    killEvery: 4,
    pause: { after: 60, days: 100 },
  });
  process.stdout.write(`${JSON.stringify({ seed, ...totals })}\n`);
  expect(totals.kills).toBeGreaterThan(8);
  expect(totals.gaps).toBe(1);
});
