import { describe, expect, test } from "vitest";
import * as fc from "../../support/fast-check.ts";
import { type Random, seededRandom, testSeed } from "../../support/seeded-random.ts";
import {
  type BillableEstimate,
  type DueGroups,
  estimateBillable,
  estimateSeconds,
} from "../../../src/jobs/lookup/estimate.ts";
import type { GroupAnswers, MatchHistory } from "../../../src/load/lookups/counts.ts";

const NONE: GroupAnswers = { answered: 0, matched: 0 };
const SOME: MatchHistory = {
  withPid: { answered: 240, matched: 235 },
  others: { answered: 60, matched: 6 },
};
const FEW: MatchHistory = { ...SOME, others: { answered: 29, matched: 2 } };
const EMPTY: MatchHistory = { withPid: NONE, others: NONE };

function estimate(
  due: Partial<DueGroups>,
  history = SOME,
  most?: number,
  isOrdered = false,
): BillableEstimate {
  const groups = { sentAgain: { matched: 0, unmatched: 0 }, withPid: 0, others: 0, waiting: 0, ...due };
  return estimateBillable("match", groups, history, { isOrdered, ...(most === undefined ? {} : { most }) });
}

const again = (matched: number, unmatched: number) => ({ sentAgain: { matched, unmatched } });

test.each<readonly [string, BillableEstimate, string]>([
  [
    "without history",
    estimate({ others: 500 }, EMPTY),
    "0 500 500, no history yet, so every record is assumed to match",
  ],
  [
    "of each group's answers",
    estimate({ withPid: 1000, others: 100 }),
    "950 989 1016, 95% interval from 300 responses of the last 90 days",
  ],
  [
    "of waiting records, from the answers of both groups",
    estimate({ withPid: 10, waiting: 1000 }),
    "753 813 860, 95% interval from 300 responses of the last 90 days",
  ],
  [
    "of fewer than 30 answers",
    estimate({ others: 290 }, FEW),
    "0 20 290, between 0 and 290 records with too little history",
  ],
  [
    "of known and unknown groups",
    estimate({ withPid: 1000, others: 290 }, FEW),
    "947 999 1282, 95% interval from 240 responses of the last 90 days; between 0 and 290 records with too little history",
  ],
  [
    "of a group without answers of its own",
    estimate({ others: 240 }, { ...SOME, others: NONE }),
    "0 235 240, between 0 and 240 records with too little history",
  ],
  [
    "of records sent again",
    estimate(again(900, 100)),
    "794 900 915, 1,000 records sent again, expected to match as before",
  ],
  [
    "after a trial under order_by",
    estimate({ withPid: 1000 }, SOME, undefined, true),
    "947 979 992, 95% interval from 240 responses of the last 90 days, which order_by chose, so they may not represent the rest",
  ],
  [
    "under a maximum, which mixes the groups",
    estimate({ withPid: 800, others: 200 }, SOME, 100),
    "65 80 90, 95% interval from 300 responses of the last 90 days",
  ],
  [
    "under a maximum, known no better than its least known group",
    estimate({ withPid: 800, others: 200 }, FEW, 100),
    "0 80 100, between 0 and 100 records with too little history",
  ],
  ["of nothing", estimate({ withPid: 5 }, SOME, 0), "0 0 0, nothing to send"],
])("the range %s", (_title, { low, expected, high, basis }, text) => {
  expect(`${low} ${expected} ${high}, ${basis}`).toBe(text);
});

test("every address of an e-mail validation is billed, and every record where the contract says so", () => {
  const due = { ...again(1000, 200), withPid: 0, others: 34, waiting: 0 };
  for (const billed of ["address", "record"] as const) {
    expect(estimateBillable(billed, due, SOME, { isOrdered: false })).toEqual({
      low: 1234,
      expected: 1234,
      high: 1234,
      basis: `every ${billed} is billed`,
    });
  }
});

const widthOf = (answered: number) => {
  const history = { withPid: NONE, others: { answered, matched: Math.floor(answered / 2) } };
  const { low, high } = estimate({ others: 1000 }, history);
  return high - low;
};

test("a range never exceeds what is sent, holds what is expected, and narrows with more answers", () => {
  const size = fc.nat(5000);
  const answers = fc.tuple(fc.nat(500), fc.nat(500)).map(([matched, unmatched]) => {
    return { matched, answered: matched + unmatched };
  });
  const groups = fc.record({
    sentAgain: fc.record({ matched: size, unmatched: size }),
    withPid: size,
    others: size,
    waiting: size,
  });
  const histories = fc.record({ withPid: answers, others: answers });
  fc.assert(
    fc.property(groups, histories, fc.option(fc.nat(20_000), { nil: undefined }), (due, history, most) => {
      const total = due.sentAgain.matched + due.sentAgain.unmatched + due.withPid + due.others + due.waiting;
      const { low, expected, high } = estimate(due, history, most);
      expect([0, low, expected, high, Math.min(total, most ?? total)]).toEqual(
        [0, low, expected, high, Math.min(total, most ?? total)].toSorted((a, b) => a - b),
      );
    }),
  );
  expect([0, 29, 30, 100, 1000, 100_000].map(widthOf)).toEqual([1000, 1000, 342, 202, 88, 64]);
});

/** A size up to `most`, small ones as often as large ones. */
const sizeOf = (random: Random, least: number, most: number) =>
  Math.floor(least * (most / least) ** random.next());

/** A rate; every other one is near 0 or 1, as match rates are. */
const rateOf = (random: Random) =>
  random.chance(0.5) ? random.next() : Math.round(random.next()) * 0.98 + 0.01;

const matchesOf = (random: Random, records: number, rate: number) =>
  Array.from({ length: records }, () => random.chance(rate)).filter(Boolean).length;

/** A case: what was answered, what is sent, and how many of it match. */
interface Case {
  readonly due: Partial<DueGroups>;
  readonly history: MatchHistory;
  readonly most?: number;
  readonly matched: number;
}

function oneGroup(random: Random, answered: number, others: number): Case {
  const rate = rateOf(random);
  const history = { withPid: NONE, others: { answered, matched: matchesOf(random, answered, rate) } };
  return { due: { others }, history, matched: matchesOf(random, others, rate) };
}

const kinds: Readonly<Record<string, (random: Random) => Case>> = {
  "few records after many answers": (random) => oneGroup(random, 2000, sizeOf(random, 50, 200)),
  "many records after few answers": (random) => oneGroup(random, sizeOf(random, 30, 100), 2000),
  "all groups, some of them under a maximum"(random) {
    const rates = [rateOf(random), rateOf(random)] as const;
    const answered = [sizeOf(random, 30, 500), sizeOf(random, 30, 500)] as const;
    const [withPid, others] = [sizeOf(random, 1, 500), sizeOf(random, 1, 500)];
    const outcomes = [
      ...Array.from({ length: withPid }, () => random.chance(rates[0])),
      ...Array.from({ length: others }, () => random.chance(rates[1])),
    ].map((isMatch) => [random.next(), isMatch] as const);
    const most = random.chance(0.5) ? outcomes.length : 1 + random.below(outcomes.length);
    const sent = outcomes.toSorted(([a], [b]) => a - b).slice(0, most);
    return {
      due: { withPid, others },
      history: {
        withPid: { answered: answered[0], matched: matchesOf(random, answered[0], rates[0]) },
        others: { answered: answered[1], matched: matchesOf(random, answered[1], rates[1]) },
      },
      most,
      matched: sent.filter(([, isMatch]) => isMatch).length,
    };
  },
  "records sent again, of which up to a tenth end otherwise"(random) {
    const { matched, unmatched } = { matched: sizeOf(random, 1, 2000), unmatched: sizeOf(random, 1, 2000) };
    const changing = random.next() * 0.1;
    const ended = matchesOf(random, matched, 1 - changing) + matchesOf(random, unmatched, changing);
    return { due: again(matched, unmatched), history: EMPTY, matched: ended };
  },
};

describe("the range holds in 9 of 10 random inputs", () => {
  test.each(Object.entries(kinds))("%s", (_, make) => {
    const random = seededRandom(testSeed(1));
    const rounds = 800;
    let inside = 0;
    for (let round = 0; round < rounds; round++) {
      const { due, history, matched, most } = make(random);
      const { low, high } = estimate(due, history, most);
      inside += low <= matched && matched <= high ? 1 : 0;
    }
    expect(inside / rounds).toBeGreaterThanOrEqual(0.9);
  });
});

test("time depends on the rate, or on the number of calls in flight", () => {
  const seconds = [
    [0, 50],
    [200, null],
    [200, 2],
    [200, 50],
    [1, 50],
  ] as const;
  expect(
    seconds.map(([calls, requestsPerSecond]) =>
      estimateSeconds(calls, { concurrency: 8, requestsPerSecond }),
    ),
  ).toEqual([0, 25, 100, 25, 1]);
});
