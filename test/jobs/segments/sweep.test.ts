import { expect, test } from "vitest";
import { type AnsweredPage, createSweep } from "../../../src/jobs/segments/sweep.ts";
import { type Random, seededRandom, testSeed } from "../../support/seeded-random.ts";
import {
  emptyStore,
  modelSegment,
  type ModelSegment,
  type ModelStore,
  momentOf,
  settle,
  takePage,
  type Ties,
} from "./sweep-model.ts";

const RUNS = 300;

/** Sweeps like the job; returns the moments of members whose removal stays pending. */
async function sweepOnce(segment: ModelSegment, store: ModelStore): Promise<readonly string[]> {
  const sweep = createSweep(async (page) => segment.read(page), segment.pageSize);
  const seen = new Set<string>();
  for await (const page of sweep.pages()) takePage(store, seen, page);
  const pending = settle(store, seen, sweep.spans());
  for await (const page of sweep.reread(pending)) takePage(store, seen, page);
  return settle(store, seen, sweep.spans());
}

/** Sweeps a changing segment three times, then a quiet one; returns the number of removals and of pending moments. */
async function sweepNights(segment: ModelSegment, random: Random, label: string) {
  const store = emptyStore();
  const sums = { removals: 0, pending: 0 };
  for (let night = 0; night < 3; night++) {
    sums.pending += (await sweepOnce(segment, store)).length;
    for (let i = random.below(20); i > 0; i--) segment.churn();
  }
  const wrong = store.removals.filter(({ pid, seenAt }) => segment.wasLivingAt(pid, seenAt));
  expect({ label, wrong }).toEqual({ label, wrong: [] });
  sums.removals = store.removals.length;
  segment.rest();
  return { ...sums, store };
}

test.each(["stable", "until_changed", "every_request"] as const)(
  "no living member is recorded as removed after any changes between two pages, ties %s",
  async (ties: Ties) => {
    const seed = testSeed(1);
    const sums = { removals: 0, pending: 0 };
    for (let run = 0; run < RUNS; run++) {
      const random = seededRandom(seed + run);
      const segment = modelSegment(random, {
        pageSize: 1 + random.below(6),
        ties,
        pace: random.pick([0.1, 0.3, 0.5, 1]),
        isCounterLate: random.chance(0.5),
      });
      const label = `run ${run} of PERSON_ETL_TEST_SEED=${seed}`;
      const { removals, pending, store } = await sweepNights(segment, random, label);
      sums.removals += removals;
      sums.pending += pending;
      // Pages of ties in a new order at each request are never equal.
      if (ties === "every_request") continue;
      const left = await sweepOnce(segment, store);
      expect({ label, left, living: [...store.living].toSorted() }).toEqual({
        label,
        left: [],
        living: [...segment.living].toSorted(),
      });
    }
    // Fails for a model in which nothing happens.
    expect(sums.removals).toBeGreaterThan(RUNS / 2);
    expect(sums.pending).toBeGreaterThan(RUNS / 10);
  },
);

/** A page of at most two members, one per moment, newest first. */
function pageOf(page: number, moments: readonly number[], totalCount: number): AnsweredPage {
  return {
    page,
    members: moments.map((n) => ({ servicePid: `p-${n}`, firstAddedAt: momentOf(n), extra: null })),
    totalCount,
    listContinues: page * 2 < totalCount,
    unusable: 0,
    isSound: true,
    seenAt: momentOf(100 + page),
  };
}

/** Sweeps scripted responses, with the pages around some moments read twice; returns the spans by kind. */
async function sweepScript(script: readonly AnsweredPage[], again: readonly number[] = []) {
  const left = [...script];
  const sweep = createSweep(async (page) => {
    const answer = left.shift();
    if (answer?.page !== page) throw new Error(`Page ${page} was read, expected ${answer?.page}.`);
    return answer;
  }, 2);
  const pages: number[] = [];
  for await (const { page } of sweep.pages()) pages.push(page);
  const single = sweep.spans();
  for await (const { page } of sweep.reread(again.map(momentOf))) pages.push(page);
  return { single, together: sweep.spans().slice(single.length), pages };
}

const span = (after: number | null, before: number | null, page: number) => ({
  after: after === null ? null : momentOf(after),
  before: before === null ? null : momentOf(before),
  seenAt: momentOf(100 + page),
});

test("a page covers everything strictly between its members, the first page all newer and the last page all older ones", async () => {
  const script = [pageOf(1, [9, 8], 5), pageOf(2, [6, 5], 5), pageOf(3, [2], 5)];
  expect(await sweepScript(script)).toEqual({
    single: [span(8, null, 1), span(5, 6, 2), span(null, 2, 3)],
    together: [],
    pages: [1, 2, 3],
  });
});

test("a full page that claims to be the last one isn't trusted: the next one must be empty, twice", async () => {
  const script = [pageOf(1, [9, 8], 4), pageOf(2, [6, 5], 4), pageOf(3, [], 4)];
  const end = script.slice(1);
  expect(await sweepScript([...script, ...end], [2])).toEqual({
    single: [span(8, null, 1), span(5, 6, 2)],
    together: [span(null, 6, 3)],
    pages: [1, 2, 3, 2, 3],
  });
  // One member was added and the counter is outdated: the oldest member is on page 3.
  const late = [pageOf(1, [9, 8], 4), pageOf(2, [6, 5], 4), pageOf(3, [2], 4)];
  expect((await sweepScript(late)).single.filter(({ after }) => after === null)).toEqual([]);
});

test("members at the edge of two pages are proven by a second reading of both", async () => {
  const [first, second] = [pageOf(1, [9, 8], 3), pageOf(2, [5], 3)];
  expect(await sweepScript([first, second, first, second], [6])).toMatchObject({
    together: [span(null, null, 2)],
    pages: [1, 2, 1, 2],
  });
});

test.each<[string, readonly AnsweredPage[]]>([
  ["another member", [pageOf(1, [9, 7], 3)]],
  ["another size", [pageOf(1, [9, 8], 4)]],
  ["another member on the second page", [pageOf(1, [9, 8], 3), pageOf(2, [4], 3)]],
])("two readings of an edge that differ by %s prove nothing", async (_what, again) => {
  const script = [pageOf(1, [9, 8], 3), pageOf(2, [5], 3), ...again, pageOf(2, [5], 3)];
  expect((await sweepScript(script, [6])).together).toEqual([]);
});

test("two identical readings prove nothing if a member is on two pages, or the pages state different sizes", async () => {
  const [twice, again] = [pageOf(1, [9, 8], 3), pageOf(2, [8], 3)];
  expect((await sweepScript([twice, again, twice, again], [8])).together).toEqual([]);
  const [more, fewer] = [pageOf(1, [9, 8], 4), pageOf(2, [5], 3)];
  expect((await sweepScript([more, fewer, more, fewer], [6])).together).toEqual([]);
});

test("a page that contradicts itself covers nothing", async () => {
  const unsound = { ...pageOf(1, [9, 8], 2), isSound: false };
  expect((await sweepScript([unsound, pageOf(2, [], 2)])).single).toEqual([]);
  const edge = [{ ...pageOf(1, [9, 8], 3), isSound: false }, pageOf(2, [5], 3)];
  expect((await sweepScript([...edge, ...edge], [6])).together).toEqual([]);
  // Fewer members than the stated size allows.
  expect((await sweepScript([pageOf(1, [9], 2)])).single).toEqual([span(9, null, 1)]);
  expect((await sweepScript([pageOf(1, [], 0)])).single).toEqual([span(null, null, 1)]);
  expect((await sweepScript([pageOf(1, [], 1)])).single).toEqual([]);
});

test.each<[string, readonly AnsweredPage[]]>([
  ["announce others", [1, 2, 3, 4, 5].map((n) => ({ ...pageOf(n, [9, 8], 3), listContinues: true }))],
  [
    "are full",
    Array.from({ length: 110 }, (_, i) => ({ ...pageOf(i + 1, [9, 8], 2), listContinues: false })),
  ],
])("pages that %s without end stop the job", async (_what, script) => {
  await expect(sweepScript(script)).rejects.toMatchObject({ code: "page_not_advancing" });
});
