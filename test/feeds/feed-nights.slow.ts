import { expect, test } from "vitest";
import { runFeedNights } from "./run-feed-nights.ts";

test("after each of two nights with faults and a kill all feeds hold what the service says, through a change of the clock", async () => {
  expect(await runFeedNights({ nights: 2, from: "2026-11-01", seed: 3, killEvery: 2 })).toMatchObject({
    kills: 1,
    gaps: 0,
  });
}, 180_000);
