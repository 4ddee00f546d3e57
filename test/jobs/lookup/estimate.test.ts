import { describe, expect, test } from "vitest";
import * as fc from "../../support/fast-check.ts";
import {
  estimateAddresses,
  estimateMatches,
  type EstimatePart,
  estimateSeconds,
  predictShare,
} from "../../../src/jobs/lookup/estimate.ts";
import { countText } from "../../../src/figures.ts";
import { estimateParts } from "../../../src/jobs/lookup/estimate-parts.ts";
import type { Cap } from "../../../src/jobs/lookup/caps.ts";
import type { LookupCounts } from "../../../src/load/due/lookup-counts.ts";
import type { RandomSample, Stratum } from "../../../src/load/due/strata.ts";
import { countsOf, customers, enrichJob } from "../support.ts";

const job = { ...enrichJob, pidFrom: "resolve_customers" };

interface Given {
  readonly due: Partial<Record<Stratum, number>>;
  readonly waiting?: number;
  readonly sample?: Partial<RandomSample> | null;
  readonly cap?: number;
}

/** Counts of a job that answered 1,000 rows, 800 of them with a match. */
function countsFor({ due, sample = null }: Given): LookupCounts {
  const strata = Object.entries(due).map(([stratum, records]) => ({
    stratum: stratum as Stratum,
    records,
    rows: records,
  }));
  const drawn = sample && { strata: {}, rowsAdded: 0, ...sample };
  return countsOf({
    matchedBefore: 800,
    answeredBefore: 1000,
    strata: { due: strata, toSend: strata, waiting: 0, sample: drawn },
  });
}

function estimate(given: Given, ofJob: Parameters<typeof estimateParts>[0] = job) {
  const counts = countsFor(given);
  const cap: Cap | null = given.cap === undefined ? null : { records: given.cap, limitedBy: "max_records" };
  const parts = estimateParts(ofJob, counts, { cap, waiting: given.waiting ?? 0 });
  return estimateMatches(parts, counts);
}

const drawn = { with_pid: { records: 240, matched: 235 }, without_pid: { records: 60, matched: 6 } };

test("every address of an e-mail validation is billed", () => {
  expect(estimateAddresses(1234)).toEqual({
    low: 1234,
    expected: 1234,
    high: 1234,
    basis: "every address is billed",
  });
});

describe("a range", () => {
  test("without history is from none to all", () => {
    const parts: EstimatePart[] = [
      { records: 500, share: 1, sample: null, noun: ["new record", "new records"] },
    ];
    expect(estimateMatches(parts, countsOf({}))).toEqual({
      low: 0,
      expected: 500,
      high: 500,
      basis: "no history: assumes that every record matches",
    });
  });

  test("with a sample is an interval, by stratum", () => {
    expect(estimate({ due: { with_pid: 1000, without_pid: 100 }, sample: { strata: drawn } })).toEqual({
      low: 950,
      expected: 989,
      high: 1016,
      basis: "95 % interval from 300 records answered so far",
    });
  });

  test("is zero under a cap that is used up, although records wait", () => {
    expect(estimate({ due: { with_pid: 5 }, waiting: 1000, cap: 0, sample: { strata: drawn } })).toEqual({
      low: 0,
      expected: 0,
      high: 0,
      basis: "nothing to send",
    });
  });

  test("of waiting records has the rate of all that were resolved", () => {
    const strata = { ...drawn, unresolved: { records: 90, matched: 45 } };
    expect(estimate({ due: {}, waiting: 1000, sample: { strata } })).toMatchObject({
      expected: Math.round((1000 * 241) / 300),
      basis: "95 % interval from 300 records answered so far",
    });
  });

  test.each<[string, Given, string]>([
    [
      "rejected by resolve",
      { due: { unresolved: 50 } },
      "none to all of 50 records that resolve_customers rejected",
    ],
    [
      "new since the last complete run",
      { due: { with_pid: 50 }, sample: null },
      "none to all of 50 new records",
    ],
    ["with changed content", { due: { changed: 1 } }, "none to all of 1 changed record"],
    [
      "of which few were answered",
      { due: { without_pid: 50 }, sample: { strata: { without_pid: { records: 29, matched: 2 } } } },
      "none to all of 50 records with too few answers so far",
    ],
  ])("is none to all of the records %s", (_, given, basis) => {
    const records = Object.values(given.due)[0] ?? 0;
    expect(estimate({ sample: { strata: {} }, ...given })).toMatchObject({ low: 0, high: records, basis });
  });

  test("is none to all of the records that order_by puts after the answered ones", () => {
    const ordered = { ...enrichJob, input: { ...customers, orderBy: "lifetime_value DESC" } };
    expect(estimate({ due: { new: 50 } }, ordered)).toEqual({
      low: 0,
      expected: 40,
      high: 50,
      basis: "none to all of 50 records that order_by puts later",
    });
  });

  test("expects records that are sent again to end as before", () => {
    expect(estimate({ due: { matched: 900, unmatched: 100 } })).toEqual({
      low: 0,
      expected: 900,
      high: 1000,
      basis: "none to all of 1,000 records sent again",
    });
  });

  test("excludes rows that were added to the input after the sample", () => {
    const added = { due: { with_pid: 1000 }, sample: { strata: drawn, rowsAdded: 300 } };
    const { low, high, basis } = estimate(added);
    expect([low < 700, high > 980]).toEqual([true, true]);
    expect(basis).toBe(
      "95 % interval from 240 records answered so far, none to all of 300 records added since the first run",
    );
  });

  test("under a cap covers the resolved and waiting records that come first", () => {
    const given = { due: { unresolved: 500 }, waiting: 1000, sample: { strata: drawn } };
    expect(estimate({ ...given, cap: 400 })).toMatchObject({
      expected: Math.round((400 * 241) / 300),
      basis: "95 % interval from 300 records answered so far",
    });
    expect(estimate({ ...given, cap: 1100 }).basis).toMatch(
      /, none to all of 100 records that resolve_customers/,
    );
  });

  test("covers the cap if it takes an unknown mixture", () => {
    const given = { due: { changed: 500 }, waiting: 500, sample: { strata: drawn }, cap: 300 };
    expect(estimate(given)).toMatchObject({ low: 0, high: 300 });
  });
});

test("nothing to send costs nothing", () => {
  expect(estimate({ due: {} })).toEqual({ low: 0, expected: 0, high: 0, basis: "nothing to send" });
});

test("an interval holds what is expected and narrows with history, for every share and size", () => {
  for (const [hits, sample] of [
    [0, 10],
    [1, 10],
    [85, 100],
    [100, 100],
    [85_000, 100_000],
  ] as const) {
    for (const trials of [1, 10, 1000, 1_000_000]) {
      const { low, high } = predictShare(hits, sample, trials);
      expect(low).toBeGreaterThanOrEqual(0);
      expect(high).toBeLessThanOrEqual(1);
      expect(low).toBeLessThanOrEqual(hits / sample);
      expect(high).toBeGreaterThanOrEqual(hits / sample);
      const wider = predictShare(hits, sample, Math.ceil(trials / 2));
      expect(wider.high - wider.low).toBeGreaterThanOrEqual(high - low);
    }
  }
});

test("a range never exceeds what is sent, and holds what is expected", () => {
  const size = fc.nat(5000);
  const sample = fc
    .tuple(fc.nat(500), fc.nat(500))
    .map(([matched, others]) => ({ matched, records: matched + others }));
  fc.assert(
    fc.property(
      fc.record({ with_pid: size, without_pid: size, unresolved: size, changed: size }),
      fc.record({ with_pid: sample, without_pid: sample }),
      fc.record({ waiting: size, rowsAdded: size, cap: size }),
      (due, strata, { waiting, rowsAdded, cap }) => {
        const sending = waiting === 0 ? Infinity : cap;
        const total = due.with_pid + due.without_pid + due.unresolved + due.changed + waiting;
        const { low, expected, high } = estimate({ due, waiting, sample: { strata, rowsAdded }, cap });
        expect(low).toBeLessThanOrEqual(expected);
        expect(expected).toBeLessThanOrEqual(high);
        expect(high).toBeLessThanOrEqual(Math.min(total, sending) + 5);
      },
    ),
  );
});

test("time depends on the rate, or on the number of calls in flight", () => {
  expect(estimateSeconds(0, { concurrency: 8, requestsPerSecond: 50 })).toBe(0);
  expect(estimateSeconds(200, { concurrency: 8, requestsPerSecond: null })).toBe(25);
  expect(estimateSeconds(200, { concurrency: 8, requestsPerSecond: 2 })).toBe(100);
  expect(estimateSeconds(200, { concurrency: 8, requestsPerSecond: 50 })).toBe(25);
  expect(estimateSeconds(1, { concurrency: 8, requestsPerSecond: 50 })).toBe(1);
});

test("counts are shown with their noun", () => {
  expect(countText(1, "row")).toBe("1 row");
  expect(countText(0, "row")).toBe("0 rows");
  expect(countText(1_234_567, "record")).toBe("1,234,567 records");
});
