import { describe, expect, test } from "vitest";
import * as fc from "../../support/fast-check.ts";
import { type Random, seededRandom, testSeed } from "../../support/seeded-random.ts";
import {
  type DueGroups,
  estimateBillable,
  type EstimateOptions,
  estimateSeconds,
} from "../../../src/jobs/lookup/estimate.ts";
import type { GroupAnswers, MatchHistory } from "../../../src/load/lookups/counts.ts";

const NONE: GroupAnswers = { answered: 0, matched: 0 };
const SOME: MatchHistory = {
  withPid: { answered: 240, matched: 235 },
  others: { answered: 60, matched: 6 },
};

function estimate(due: Partial<DueGroups>, history = SOME, options: Partial<EstimateOptions> = {}) {
  const groups = { sentAgain: { matched: 0, unmatched: 0 }, withPid: 0, others: 0, waiting: 0, ...due };
  return estimateBillable("match", groups, history, { isOrdered: false, ...options });
}

test("every address of an e-mail validation is billed, and every record where the contract says so", () => {
  const due = { sentAgain: { matched: 1000, unmatched: 200 }, withPid: 0, others: 34, waiting: 0 };
  for (const billed of ["address", "record"] as const) {
    expect(estimateBillable(billed, due, SOME, { isOrdered: false })).toEqual({
      low: 1234,
      expected: 1234,
      high: 1234,
      basis: `every ${billed} is billed`,
    });
  }
});

/** Width of the range of 1,000 records after so many answers, half of them matches. */
const widthOf = (answered: number) => {
  const { low, high } = estimate(
    { others: 1000 },
    { withPid: NONE, others: { answered, matched: Math.floor(answered / 2) } },
  );
  return high - low;
};

describe("a range", () => {
  test("without history is from none to all", () => {
    expect(estimate({ others: 500 }, { withPid: NONE, others: NONE })).toEqual({
      low: 0,
      expected: 500,
      high: 500,
      basis: "no history: assumes that every record matches",
    });
  });

  test("comes from the answers of each group", () => {
    expect(estimate({ withPid: 1000, others: 100 })).toEqual({
      low: 950,
      expected: 989,
      high: 1016,
      basis: "95 % interval from 300 answers of the last 90 days",
    });
  });

  test("of waiting records comes from the answers of both groups, each counted once", () => {
    expect(estimate({ withPid: 10, waiting: 1000 })).toMatchObject({
      expected: Math.round((1000 * 241) / 300 + (10 * 235) / 240),
      basis: "95 % interval from 300 answers of the last 90 days",
    });
  });

  test("of a group with fewer than 30 answers is none to all, at the rate known so far", () => {
    const few = { ...SOME, others: { answered: 29, matched: 2 } };
    expect(estimate({ others: 290 }, few)).toEqual({
      low: 0,
      expected: 20,
      high: 290,
      basis: "none to all of 290 records with too few answers",
    });
    expect(estimate({ withPid: 1000, others: 290 }, few).basis).toBe(
      "95 % interval from 240 answers of the last 90 days; none to all of 290 records with too few answers",
    );
    expect(estimate({ others: 240 }, { ...SOME, others: NONE })).toMatchObject({
      expected: 235,
      basis: "none to all of 240 records with too few answers",
    });
  });

  test("of records sent again is that of 30 which all ended as before", () => {
    expect(estimate({ sentAgain: { matched: 900, unmatched: 100 } })).toEqual({
      low: 794,
      expected: 900,
      high: 915,
      basis: "1,000 records sent again, expected to end as before",
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), (records) => {
        const all = { withPid: { answered: 30, matched: 30 }, others: { answered: 30, matched: 0 } };
        const { low } = estimate({ sentAgain: { matched: records, unmatched: 0 } });
        expect(low).toBe(estimate({ withPid: records }, all).low);
        const { high } = estimate({ sentAgain: { matched: 0, unmatched: records } });
        expect(high).toBe(estimate({ others: records }, all).high);
      }),
    );
  });

  test("after a trial under order_by is given with the reason why it may be wrong", () => {
    expect(estimate({ withPid: 1000 }, SOME, { isOrdered: true })).toEqual({
      ...estimate({ withPid: 1000 }),
      basis:
        "95 % interval from 240 answers of the last 90 days, which are no sample of the rest because order_by chose them",
    });
    expect(estimate({ sentAgain: { matched: 5, unmatched: 0 } }, SOME, { isOrdered: true }).basis).toBe(
      "5 records sent again, expected to end as before",
    );
  });

  test("under a maximum has the mixed rate of all groups, and is no better known than the least known one", () => {
    const due = { withPid: 800, others: 200 };
    expect(estimate(due, SOME, { most: 100 })).toEqual({
      low: 65,
      expected: 80,
      high: 90,
      basis: "95 % interval from 300 answers of the last 90 days",
    });
    const few = { ...SOME, others: { answered: 29, matched: 2 } };
    expect(estimate(due, few, { most: 100 })).toEqual({
      low: 0,
      expected: 80,
      high: 100,
      basis: "none to all of 100 records with too few answers",
    });
    expect(estimate(due, few, { most: 1000 })).toEqual(estimate(due, few));
  });

  test("is zero if nothing is sent", () => {
    const nothing = { low: 0, expected: 0, high: 0, basis: "nothing to send" };
    expect(estimate({})).toEqual(nothing);
    expect(estimate({ withPid: 5, waiting: 1000 }, SOME, { most: 0 })).toEqual(nothing);
  });

  test("never exceeds what is sent, and holds what is expected", () => {
    const size = fc.nat(5000);
    const answers = fc.tuple(fc.nat(500), fc.nat(500)).map(([matched, unmatched]) => {
      return { matched, answered: matched + unmatched };
    });
    fc.assert(
      fc.property(
        fc.record({
          sentAgain: fc.record({ matched: size, unmatched: size }),
          withPid: size,
          others: size,
          waiting: size,
        }),
        fc.record({ withPid: answers, others: answers }),
        fc.option(fc.nat(20_000), { nil: undefined }),
        (due, history, most) => {
          const { sentAgain, withPid, others, waiting } = due;
          const total = sentAgain.matched + sentAgain.unmatched + withPid + others + waiting;
          const { low, expected, high } = estimate(due, history, most === undefined ? {} : { most });
          expect(low).toBeGreaterThanOrEqual(0);
          expect(low).toBeLessThanOrEqual(expected);
          expect(expected).toBeLessThanOrEqual(high);
          expect(high).toBeLessThanOrEqual(Math.min(total, most ?? total));
        },
      ),
    );
  });

  test("narrows with more answers, and not below what 30 allow with fewer", () => {
    expect([0, 1, 15, 29].map(widthOf)).toEqual([1000, 1000, 1000, 1000]);
    const widths = [30, 100, 1000, 100_000].map(widthOf);
    expect(widths).toEqual([342, 202, 88, 64]);
  });
});

/** Cases of each kind. */
const ROUNDS = 3000;

/** A size up to `most`, small ones as often as large ones. */
const sizeOf = (random: Random, least: number, most: number) =>
  Math.floor(least * (most / least) ** random.next());

/** A rate; every other one is near 0 or 1, as match rates are. */
const rateOf = (random: Random) =>
  random.chance(0.5) ? random.next() : Math.round(random.next()) * 0.98 + 0.01;

const matchesOf = (random: Random, records: number, rate: number) => {
  let matched = 0;
  for (let i = 0; i < records; i++) matched += random.chance(rate) ? 1 : 0;
  return matched;
};

/** A case: what was answered, what is sent, and how many of it match. */
interface Case {
  readonly due: Partial<DueGroups>;
  readonly history: MatchHistory;
  readonly most?: number;
  readonly matched: number;
}

function oneGroup(random: Random, answered: number, others: number): Case {
  const rate = rateOf(random);
  return {
    due: { others },
    history: { withPid: NONE, others: { answered, matched: matchesOf(random, answered, rate) } },
    matched: matchesOf(random, others, rate),
  };
}

const kinds: Readonly<Record<string, (random: Random) => Case>> = {
  "one group": (random) => oneGroup(random, sizeOf(random, 30, 1000), sizeOf(random, 1, 2000)),
  "few records after many answers": (random) => oneGroup(random, 2000, sizeOf(random, 50, 200)),
  "many records after few answers": (random) => oneGroup(random, sizeOf(random, 30, 100), 2000),
  "all groups"(random) {
    const [rateWithPid, rateOfOthers] = [rateOf(random), rateOf(random)];
    const [answeredWithPid, answeredOthers] = [sizeOf(random, 30, 500), sizeOf(random, 30, 500)];
    const due = {
      sentAgain: { matched: sizeOf(random, 1, 500), unmatched: sizeOf(random, 1, 500) },
      withPid: sizeOf(random, 1, 500),
      others: sizeOf(random, 1, 500),
    };
    const changing = random.next() * 0.1;
    return {
      due,
      history: {
        withPid: {
          answered: answeredWithPid,
          matched: matchesOf(random, answeredWithPid, rateWithPid),
        },
        others: { answered: answeredOthers, matched: matchesOf(random, answeredOthers, rateOfOthers) },
      },
      matched:
        matchesOf(random, due.sentAgain.matched, 1 - changing) +
        matchesOf(random, due.sentAgain.unmatched, changing) +
        matchesOf(random, due.withPid, rateWithPid) +
        matchesOf(random, due.others, rateOfOthers),
    };
  },
  "records sent again, of which up to a tenth end otherwise"(random) {
    const sentAgain = { matched: sizeOf(random, 1, 2000), unmatched: sizeOf(random, 1, 2000) };
    const changing = random.next() * 0.1;
    return {
      due: { sentAgain },
      history: { withPid: NONE, others: NONE },
      matched:
        matchesOf(random, sentAgain.matched, 1 - changing) + matchesOf(random, sentAgain.unmatched, changing),
    };
  },
  "a maximum that lets through some of two groups and of waiting records"(random) {
    const share = random.next();
    const [rateWithPid, rateOfOthers] = [rateOf(random), rateOf(random)];
    const answered = sizeOf(random, 60, 2000);
    const answeredWithPid = matchesOf(random, answered, share);
    const [withPid, others, waiting] = [200, 200, 200].map((most) => sizeOf(random, 1, most));
    const records = [
      ...Array.from({ length: withPid ?? 0 }, () => rateWithPid),
      ...Array.from({ length: others ?? 0 }, () => rateOfOthers),
      ...Array.from({ length: waiting ?? 0 }, () => (random.chance(share) ? rateWithPid : rateOfOthers)),
    ].map((rate) => [random.next(), rate] as const);
    const most = 1 + random.below(records.length);
    const sent = records.toSorted(([a], [b]) => a - b).slice(0, most);
    return {
      due: { withPid: withPid ?? 0, others: others ?? 0, waiting: waiting ?? 0 },
      history: {
        withPid: {
          answered: answeredWithPid,
          matched: matchesOf(random, answeredWithPid, rateWithPid),
        },
        others: {
          answered: answered - answeredWithPid,
          matched: matchesOf(random, answered - answeredWithPid, rateOfOthers),
        },
      },
      most,
      matched: sent.filter(([, rate]) => random.chance(rate)).length,
    };
  },
};

test.each(Object.entries(kinds))("the range holds in 9 of 10 random inputs: %s", (_, make) => {
  const random = seededRandom(testSeed(1));
  let inside = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const { due, history, matched, ...options } = make(random);
    const { low, high } = estimate(due, history, options);
    inside += low <= matched && matched <= high ? 1 : 0;
  }
  expect(inside / ROUNDS).toBeGreaterThanOrEqual(0.9);
});

test("time depends on the rate, or on the number of calls in flight", () => {
  expect(estimateSeconds(0, { concurrency: 8, requestsPerSecond: 50 })).toBe(0);
  expect(estimateSeconds(200, { concurrency: 8, requestsPerSecond: null })).toBe(25);
  expect(estimateSeconds(200, { concurrency: 8, requestsPerSecond: 2 })).toBe(100);
  expect(estimateSeconds(200, { concurrency: 8, requestsPerSecond: 50 })).toBe(25);
  expect(estimateSeconds(1, { concurrency: 8, requestsPerSecond: 50 })).toBe(1);
});
