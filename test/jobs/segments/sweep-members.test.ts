import { expect, test } from "vitest";
import type { MemberPage } from "../../../src/extract/segment-page.ts";
import { collectRun, factsOf, pagesBetweenRuns, spanOfRun } from "../../../src/jobs/segments/member-proof.ts";
import { createMemberSweep } from "../../../src/jobs/segments/sweep-members.ts";
import { seededRandom, testSeed } from "../../support/seeded-random.ts";
import {
  emptyStore,
  modelSegment,
  type ModelSegment,
  type ModelStore,
  momentOf,
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

test("whoever comes and goes with every second or third request, others in turn for them or not, makes nobody seem gone", async () => {
  const seed = testSeed(1);
  const sums = { removals: 0, pending: 0 };
  for (let run = 0; run < RUNS; run++) {
    const random = seededRandom(seed + run, 2);
    const ties: Ties = (["stable", "until_changed"] as const)[run % 2] ?? "stable";
    const segment = modelSegment(random, { pageSize: 3 + random.below(4), ties });
    const store = emptyStore();
    const dancers = (["one", "some", "in_turn"] as const)[Math.floor(run / 2) % 3] ?? "one";
    const period = dancers === "one" ? random.pick([2, 3, 5, 7]) : 2 + random.below(2);
    const label = `run ${run} of PERSON_ETL_TEST_SEED=${seed}, ties ${ties}, ${dancers}, every ${period} requests`;
    segment.rest();
    await sweepOnce(segment, store, 2);
    segment.beat(period, dancers);
    for (let night = 0; night < 3; night++) {
      const { pending } = await sweepOnce(segment, store, 2);
      sums.pending += pending;
    }
    const wrong = store.removals.filter(({ pid, seenAt }) => segment.wasLivingAt(pid, seenAt));
    expect({ label, wrong }).toEqual({ label, wrong: [] });
    sums.removals += store.removals.length;
    segment.rest();
    const { pending } = await sweepOnce(segment, store, 2);
    expect({ label, pending, living: [...store.living].toSorted() }).toEqual({
      label,
      pending: 0,
      living: [...segment.living].toSorted(),
    });
  }
  expect(sums.removals).toBeGreaterThan(RUNS / 20);
  expect(sums.pending).toBeGreaterThan(RUNS / 20);
});

test.each([
  [1, 0],
  [2, 3],
  [3, 2],
  [4, 1],
  [5, 0],
  [6, 1],
  [9, 2],
  [200, 3],
])("between two readings of %i pages %i more are read", (pages, more) => {
  expect(pagesBetweenRuns(pages)).toBe(more);
});

/** The span that two pages of up to two members prove together, read one after the other. */
function spanOver(members: readonly number[], totals: readonly number[]) {
  const run = collectRun();
  for (const [i, totalCount] of totals.entries()) {
    const page: MemberPage = {
      members: members
        .slice(2 * i, 2 * i + 2)
        .map((n) => ({ servicePid: `p-${n}`, firstAddedAt: momentOf(n), extra: null })),
      totalCount,
      listContinues: i === 0,
      isSound: true,
    };
    run.add(factsOf(i + 1, page, momentOf(10 + i), 2), page);
  }
  return spanOfRun(run.end());
}

test("pages that say different sizes prove nothing together", () => {
  expect(spanOver([4, 3, 2, 1], [4, 4])).toEqual({ after: null, before: null, seenAt: momentOf(11) });
  expect(spanOver([4, 3, 1], [4, 3])).toBeNull();
});
