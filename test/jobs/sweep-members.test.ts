import { expect, test } from "vitest";
import { createMemberSweep } from "../../src/jobs/sweep-members.ts";
import { seededRandom, testSeed } from "../support/seeded-random.ts";
import {
  emptyStore,
  modelSegment,
  type ModelSegment,
  type ModelStore,
  partsOf,
  type Ties,
} from "./sweep-model.ts";

const RUNS = 1000;

async function sweepOnce(segment: ModelSegment, store: ModelStore, pagesPerCommit: number, start = 1) {
  const sweep = createMemberSweep(partsOf(segment, store, pagesPerCommit));
  await sweep.begin(segment.read(1), 1);
  await sweep.readAll(start);
  return sweep.settle();
}

test("nobody who was a member is recorded as removed, whatever happens between pages, and a quiet sweep is exact", async () => {
  const seed = testSeed(1);
  const sums = { removals: 0, pending: 0, requests: 0 };
  for (let run = 0; run < RUNS; run++) {
    const random = seededRandom(seed + run);
    const ties: Ties = (["stable", "until_changed", "every_request"] as const)[run % 3] ?? "stable";
    const segment = modelSegment(random, { pageSize: 1 + random.below(6), ties });
    const store = emptyStore();
    const label = `run ${run} of PERSON_ETL_TEST_SEED=${seed}, ties ${ties}`;
    for (let night = 0; night < 3; night++) {
      // Some go on in the middle, as after a crash.
      const start = random.below(3) === 0 ? 1 + random.below(4) : 1;
      const { pending } = await sweepOnce(segment, store, 1 + random.below(3), start);
      sums.pending += pending;
      for (let i = random.below(20); i > 0; i--) segment.churn();
    }
    const wrong = store.removals.filter(({ pid, seenAt }) => segment.wasLivingAt(pid, seenAt));
    expect({ label, wrong }).toEqual({ label, wrong: [] });
    sums.removals += store.removals.length;
    segment.rest();
    if (ties === "every_request") continue; // There is no quiet: what pages show changes by itself.
    const { pending } = await sweepOnce(segment, store, 2);
    expect({ label, pending, living: [...store.living].toSorted() }).toEqual({
      label,
      pending: 0,
      living: [...segment.living].toSorted(),
    });
    sums.requests += segment.requests;
  }
  // The runs have to be about something.
  expect(sums.removals).toBeGreaterThan(RUNS);
  expect(sums.pending).toBeGreaterThan(RUNS / 10);
});
