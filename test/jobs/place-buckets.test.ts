import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Bucket, bucketsBetween, dayNumber, firstDay } from "../../src/jobs/natural-buckets.ts";
import { placeBuckets } from "../../src/jobs/place-buckets.ts";
import { openZone } from "../../src/schedule/zone.ts";

const SIZES = ["hour", "day", "week", "month", "quarter", "year"] as const;
const zoneNames = Intl.supportedValuesOf("timeZone");
const wall = (ms: number) => new Date(ms).toISOString().slice(0, 19);

const two = (number: number) => String(Math.floor(number)).padStart(2, "0");

function offsetText(ms: number): string {
  const minutes = Math.abs(ms) / 60_000;
  return `${ms < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}

/** Every way in which a service may write when a bucket begins. */
const manners: Readonly<Record<string, (bucket: Bucket) => string>> = {
  "with the zone's offset": ({ startMs, localMs }) => wall(localMs) + offsetText(localMs - startMs),
  "with offset and fraction": ({ startMs, localMs }) =>
    `${wall(localMs)}.000000${offsetText(localMs - startMs)}`,
  "in UTC, with Z": ({ startMs }) => `${wall(startMs)}Z`,
  "in UTC, with +00:00": ({ startMs }) => `${wall(startMs)}+00:00`,
  "local, without a zone": ({ localMs }) => wall(localMs),
  "local, with a space": ({ localMs }) => wall(localMs).replace("T", " "),
  "local, with a Z all the same": ({ localMs }) => `${wall(localMs)}Z`,
};

describe.each(Object.entries(manners))("begins written %s", (_, write) => {
  test("are placed where they belong, in every zone and size", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.constantFrom(
            "America/New_York",
            "Australia/Lord_Howe",
            "America/Santiago",
            "Asia/Kathmandu",
            "UTC",
          ),
          fc.constantFrom(...zoneNames),
        ),
        fc.constantFrom(...SIZES),
        fc.integer({ min: dayNumber("2025-01-01"), max: dayNumber("2029-01-01") }),
        fc.integer({ min: 0, max: 40 }),
        fc.boolean(),
        (name, size, day, length, isDescending) => {
          const zone = openZone(name);
          const from = firstDay(size, day);
          const to = size === "hour" ? from + 1 + (length % 7) : firstDay(size, from, 1 + (length % 5));
          const buckets = bucketsBetween(size, zone, from, to);
          const told = isDescending ? buckets.toReversed() : buckets;
          const starts = told.map(write);
          const placement = placeBuckets({ size, zone }, { from, to, reachesNow: false }, [
            ...starts,
            ...starts,
          ]);
          expect([starts, placement.place(starts)]).toEqual([starts, told]);
        },
      ),
      { numRuns: 60 },
    );
  });
});

const texts = (buckets: readonly (Bucket | null)[]) =>
  buckets.map((bucket) => bucket && `${wall(bucket.startMs)} to ${wall(bucket.endMs)}`);

describe("a begin", () => {
  const zone = openZone("Africa/Cairo");
  const place = (
    size: (typeof SIZES)[number],
    from: string,
    to: string,
    starts: readonly unknown[],
    reachesNow = false,
  ) =>
    placeBuckets({ size, zone }, { from: dayNumber(from), to: dayNumber(to), reachesNow }, starts).place(
      starts,
    );

  test("may be the midnight that a change of the clock skips", () => {
    const days = [
      "2026-04-23T22:00:00Z",
      "2026-04-24T00:00:00+02:00",
      "2026-04-24T00:00:00+03:00",
      "2026-04-24",
    ];
    for (const start of days) {
      expect([start, texts(place("day", "2026-04-24", "2026-04-25", [start]))]).toEqual([
        start,
        ["2026-04-23T22:00:00 to 2026-04-24T21:00:00"],
      ]);
    }
  });

  test("of weeks that begin on Sunday is kept where all of the week was read", () => {
    const starts = ["2026-05-31", "2026-06-07", "2026-06-14", "2026-06-21"].map(
      (day) => `${day}T00:00:00+03:00`,
    );
    expect(texts(place("week", "2026-06-01", "2026-06-22", starts))).toEqual([
      null,
      "2026-06-06T21:00:00 to 2026-06-13T21:00:00",
      "2026-06-13T21:00:00 to 2026-06-20T21:00:00",
      null,
    ]);
    expect(texts(place("week", "2026-06-01", "2026-06-22", starts, true)).at(-1)).toBe(
      "2026-06-20T21:00:00 to 2026-06-27T21:00:00",
    );
  });

  test("outside of the window, or no time at all, has no place", () => {
    expect(
      place("day", "2026-06-01", "2026-06-03", [
        "2026-05-31T00:00:00+03:00",
        "soon",
        7,
        null,
        "2026-13-01T00:00:00Z",
      ]),
    ).toEqual([null, null, null, null, null]);
  });
});
