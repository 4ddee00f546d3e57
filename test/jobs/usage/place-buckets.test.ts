import { describe, expect, test } from "vitest";
import {
  type Bucket,
  type BucketingSize,
  bucketsBetween,
  dayNumber,
  firstDay,
} from "../../../src/jobs/usage/calendar.ts";
import { placeBuckets } from "../../../src/jobs/usage/endpoint-usage.ts";
import { anyZone, SIZES } from "./zones.ts";
import { openZone } from "../../../src/schedule/zone.ts";
import * as fc from "../../support/fast-check.ts";

const wall = (ms: number) => new Date(ms).toISOString().slice(0, 19);
const two = (number: number) => String(Math.floor(number)).padStart(2, "0");

function offsetText(ms: number): string {
  const minutes = Math.abs(ms) / 60_000;
  return `${ms < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}

type Form = readonly [string, (bucket: Bucket) => string];

/** All forms of a start in a service's answer. */
const forms: readonly Form[] = [
  ["with the zone's offset", ({ startMs, localMs }) => wall(localMs) + offsetText(localMs - startMs)],
  ["with a fraction", ({ startMs, localMs }) => `${wall(localMs)}.000000${offsetText(localMs - startMs)}`],
  ["in UTC, with Z", ({ startMs }) => `${wall(startMs)}Z`],
  ["in UTC, with +00:00", ({ startMs }) => `${wall(startMs)}+00:00`],
];
const localForms: readonly Form[] = [
  ["as local time", ({ localMs }) => wall(localMs)],
  ["as local time with a space", ({ localMs }) => wall(localMs).replace("T", " ")],
];

/** Any day, more often one near a clock change. */
const anyDay = fc.oneof(
  fc.integer({ min: dayNumber("2025-01-01"), max: dayNumber("2029-01-01") }),
  fc
    .tuple(
      fc.constantFrom(2, 3, 8, 9, 10),
      fc.integer({ min: 1, max: 31 }),
      fc.integer({ min: 2025, max: 2028 }),
    )
    .map(([month, dayOfMonth, year]) => Date.UTC(year, month, dayOfMonth) / 86_400_000),
);
const anyWindow = fc
  .record({
    name: anyZone,
    size: fc.oneof(fc.constant("hour" as const), fc.constantFrom(...SIZES)),
    day: anyDay,
  })
  .map(({ name, size, day }) => {
    const from = firstDay(size, day);
    return { size, calendar: bucketsBetween(size, openZone(name), { from, to: firstDay(size, from, 4) }) };
  });

describe.each(localForms)("starts written %s", (_, write) => {
  test("are found in every zone and size, whether the list ascends or descends", () => {
    fc.assert(
      fc.property(anyWindow, fc.boolean(), ({ size, calendar }, isDescending) => {
        const buckets = isDescending ? calendar.toReversed() : calendar;
        const starts = buckets.map(write);
        expect([starts, placeBuckets(size, calendar, starts)]).toEqual([starts, buckets]);
      }),
      { numRuns: 40 },
    );
  });
});

/** Some of the window's buckets, in any order. */
const anyPart = anyWindow.chain(({ size, calendar }) =>
  fc.shuffledSubarray([...calendar]).map((buckets) => ({ size, calendar, buckets })),
);

describe("some of the buckets, in any order,", () => {
  test.each(forms)("are found if their starts are written %s", (_, write) => {
    fc.assert(
      fc.property(anyPart, ({ size, calendar, buckets }) => {
        expect(placeBuckets(size, calendar, buckets.map(write))).toEqual(buckets);
      }),
      { numRuns: 40 },
    );
  });

  test.each(localForms)("are found if their starts are written %s, except for repeated hours", (_, write) => {
    fc.assert(
      fc.property(anyPart, ({ size, calendar, buckets }) => {
        const times = Map.groupBy(calendar, ({ localMs }) => localMs);
        const isUnique = ({ localMs }: Bucket) => times.get(localMs)?.length === 1;
        const placed = placeBuckets(size, calendar, buckets.map(write));
        expect(placed.filter((_bucket, i) => isUnique(buckets[i] as Bucket))).toEqual(
          buckets.filter(isUnique),
        );
        const found = placed.filter((bucket) => bucket !== null);
        expect(new Set(found).size).toBe(found.length);
      }),
      { numRuns: 40 },
    );
  });
});

test("an instant is placed at no other bucket than the one that starts then", () => {
  fc.assert(
    fc.property(anyWindow, fc.integer({ min: -200, max: 800 }), ({ size, calendar }, quarters) => {
      const atMs = (calendar[0]?.startMs ?? 0) + quarters * 900_000;
      const expected = calendar.find(({ startMs }) => startMs === atMs) ?? null;
      expect(placeBuckets(size, calendar, [`${wall(atMs)}Z`])).toEqual([expected]);
    }),
  );
});

/** Starts (UTC) of the buckets found for texts in some days, `from` inclusive, `to` exclusive. */
function place(
  size: BucketingSize,
  zone: string,
  [from, to]: readonly [string, string],
  starts: readonly unknown[],
): readonly (string | null)[] {
  const calendar = bucketsBetween(size, openZone(zone), { from: dayNumber(from), to: dayNumber(to) });
  return placeBuckets(size, calendar, starts).map((bucket) => bucket && wall(bucket.startMs));
}

test.each([
  [
    ["00", "01"],
    ["2026-11-01T04:00:00", null],
  ],
  [
    ["01", "00", "01"],
    [null, "2026-11-01T04:00:00", null],
  ],
])(
  "the hour that comes twice has no place if the list has one of the two, or no order: %j",
  (hours, placed) => {
    const starts = hours.map((hour) => `2026-11-01T${hour}:00:00`);
    expect(place("hour", "America/New_York", ["2026-11-01", "2026-11-02"], starts)).toEqual(placed);
  },
);

test("the hour that the clock skips has no place as local time; with an offset it is the hour after it", () => {
  const starts = ["2026-03-08T01:00:00", "2026-03-08T02:00:00", "2026-03-08T02:00:00-05:00"];
  expect(place("hour", "America/New_York", ["2026-03-08", "2026-03-09"], starts)).toEqual([
    "2026-03-08T06:00:00",
    null,
    "2026-03-08T07:00:00",
  ]);
});

test("the midnight that the clock skips is the start of its day", () => {
  const starts = ["2026-04-23T22:00:00Z", "2026-04-24T00:00:00+02:00", "2026-04-24T01:00:00", "2026-04-24"];
  for (const start of starts) {
    expect([start, place("day", "Africa/Cairo", ["2026-04-24", "2026-04-25"], [start])]).toEqual([
      start,
      ["2026-04-23T22:00:00"],
    ]);
  }
});
