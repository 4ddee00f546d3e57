import { describe, expect, test } from "vitest";
import {
  type BucketingSize,
  dayNumber,
  dayText,
  firstDay,
  planPass,
  type UsageCursor,
} from "../../../src/jobs/usage/calendar.ts";
import * as fc from "../../support/fast-check.ts";

/** First night of every history. */
const FIRST = dayNumber("2026-06-10");

interface Night {
  /** Days since the previous night. */
  readonly later: number;
  /** Days from the start of the history to {@link FIRST}; negative if it starts later. */
  readonly start: number;
  /** Error of our clock in this night, days. */
  readonly error: number;
  /** Windows after which the run is killed. */
  readonly killedAfter: number;
}

/** First day of the window's first bucket that may still be corrected at noon today. */
function firstOpenOf(
  size: BucketingSize,
  window: { from: number; to: number },
  today: number,
): number | null {
  for (let day = window.from; day < window.to; day = firstDay(size, day, 1)) {
    if (!hasEnded(size, day, 30, today)) return day;
  }
  return null;
}

/** True if the bucket of a day ended this number of days before noon of another day. */
const hasEnded = (size: BucketingSize, day: number, daysAgo: number, today: number) =>
  firstDay(size, day, 1) + daysAgo <= today + 0.5;

/** Day of the last reading of each day (by the correct clock), after these nights and a final one without errors. */
function readNights(size: BucketingSize, nights: readonly Night[]) {
  const readOn = new Map<number, number>();
  const earliest = FIRST - Math.max(...nights.map(({ start }) => start));
  const last: Night = { later: 1, start: FIRST - earliest, error: 0, killedAfter: Number.POSITIVE_INFINITY };
  let cursor: UsageCursor | null = null;
  let now = FIRST;
  for (const { later, start, error, killedAfter } of [...nights, last]) {
    now += later;
    const today = now + error;
    const pass = planPass(size, dayText(FIRST - start), cursor, today);
    for (const [i, window] of pass.windows.entries()) {
      if (i >= killedAfter) break;
      for (let day = window.from; day < window.to; day++) readOn.set(day, now);
      cursor = pass.after(window, firstOpenOf(size, window, today));
    }
  }
  return { readOn, earliest, now };
}

const size = fc.constantFrom<BucketingSize>("hour", "day", "week", "month", "quarter", "year");
const nightWith = (error: fc.Arbitrary<number>) =>
  fc.record({
    later: fc.integer({ min: 0, max: 45 }),
    start: fc.oneof(fc.constantFrom(0, 40, 400), fc.integer({ min: -200, max: 500 })),
    error,
    killedAfter: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.integer({ min: 0, max: 6 })),
  });
const anyError = fc.oneof(
  { weight: 4, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.integer({ min: -400, max: -1 }) },
  { weight: 1, arbitrary: fc.integer({ min: 700, max: 900 }) },
);

describe("after any changes of start_date and any runs", () => {
  test.each([
    ["30 days after its end", fc.constant(0), 30],
    ["after it was final although our clock was wrong", anyError, 3],
  ])("each day from the earliest start was read %s, or in the last night", (_, error, daysAgo) => {
    fc.assert(
      fc.property(size, fc.array(nightWith(error), { minLength: 1, maxLength: 12 }), (size, nights) => {
        const { readOn, earliest, now } = readNights(size, nights);
        const missed: string[] = [];
        for (let day = firstDay(size, earliest); day <= now; day++) {
          const read = readOn.get(day) ?? Number.NEGATIVE_INFINITY;
          if (read < now && !hasEnded(size, day, daysAgo, read)) missed.push(dayText(day));
        }
        expect(missed).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});
