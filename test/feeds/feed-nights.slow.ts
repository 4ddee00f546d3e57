import { expect, test } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { sized } from "../support/test-size.ts";
import { runFeedNights } from "./run-feed-nights.ts";

const NIGHTS = sized(8, 90);

test(`after each of ${NIGHTS} nights with faults and kills all feeds hold what the service says, a pause of 100 days included`, async () => {
  const seed = testSeed();
  const totals = await runFeedNights({
    nights: NIGHTS,
    from: "2026-02-20",
    seed,
    killEvery: 4,
    pause: { after: sized(5, 60), days: 100 },
  });
  process.stdout.write(`${JSON.stringify({ seed, ...totals })}\n`);
  expect(totals.kills).toBeGreaterThanOrEqual(sized(1, 9));
  expect(totals.gaps).toBe(1);
}, 1_800_000);

test("feeds stay right through a change of the clock", async () => {
  expect(await runFeedNights({ nights: 2, from: "2026-11-01", seed: 3, killEvery: 2 })).toMatchObject({
    kills: 1,
    gaps: 0,
  });
});
