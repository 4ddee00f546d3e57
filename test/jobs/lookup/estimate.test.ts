import { expect, test } from "vitest";
import {
  countText,
  estimateBillable,
  estimateSeconds,
  predictShare,
} from "../../../src/jobs/lookup/estimate.ts";

const noHistory = { matchedBefore: 0, answeredBefore: 0 };

test("every address of an e-mail validation is billed", () => {
  expect(estimateBillable("validate_emails", 1234, { matchedBefore: 1, answeredBefore: 2 })).toEqual({
    low: 1234,
    expected: 1234,
    high: 1234,
    basis: "every address is billed",
  });
});

test("without history all that is sent may be billed, or nothing", () => {
  expect(estimateBillable("enrich", 500, noHistory)).toEqual({
    low: 0,
    expected: 500,
    high: 500,
    basis: "no history: assumes that every record matches",
  });
});

test("with history the match rate seen so far is expected, in a range that covers chance", () => {
  expect(estimateBillable("enrich", 1000, { matchedBefore: 8500, answeredBefore: 10_000 })).toEqual({
    low: 825,
    expected: 850,
    high: 872,
    basis: "match rate of 10,000 rows answered so far",
  });
  expect(estimateBillable("resolve", 10, { matchedBefore: 3, answeredBefore: 3 })).toEqual({
    low: 3,
    expected: 10,
    high: 10,
    basis: "match rate of 3 rows answered so far",
  });
});

test("nothing to send costs nothing", () => {
  for (const type of ["resolve", "validate_emails", "enrich"] as const) {
    expect(estimateBillable(type, 0, { matchedBefore: 5, answeredBefore: 9 })).toMatchObject({
      low: 0,
      expected: 0,
      high: 0,
    });
  }
});

test("a range holds what is expected and narrows with history, for every share and size", () => {
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
