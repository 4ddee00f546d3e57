import { describe, expect, test } from "vitest";
import {
  type Bucket,
  bucketsBetween,
  dayNumber,
  firstDay,
  fullHours,
} from "../../../src/jobs/usage/natural-buckets.ts";
import { placeBuckets } from "../../../src/jobs/usage/place-buckets.ts";
import { openZone } from "../../../src/schedule/zone.ts";
import * as fc from "../../support/fast-check.ts";

const SIZES = ["hour", "day", "week", "month", "quarter", "year"] as const;
// Where two hours come twice, local ones are in no order that tells which is meant: they are refused.
const zoneNames = Intl.supportedValuesOf("timeZone").filter((name) => name !== "Antarctica/Troll");
/** After every window. */
const AFTERWARDS = Date.parse("2040-01-01T00:00:00Z");
const wall = (ms: number) => new Date(ms).toISOString().slice(0, 19);

const inStyle = (style: "cut" | "full", size: (typeof SIZES)[number], buckets: readonly Bucket[]) =>
  style === "full" && size === "hour" ? fullHours(buckets) : buckets;

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
/** Ways that say something else than they mean: only an answer without holes shows how they are meant. */
const misleading: typeof manners = {
  "local, with a Z all the same": ({ localMs }) => `${wall(localMs)}Z`,
  "in UTC, without a zone": ({ startMs }) => wall(startMs),
};

/** Zones of every kind: half and three quarters of an hour, changes at midnight, an offset of zero for half of the year. */
const trickyZones = [
  "UTC",
  "Europe/Berlin",
  "Europe/London",
  "Atlantic/Azores",
  "America/New_York",
  "America/Santiago",
  "America/Havana",
  "Africa/Cairo",
  "Africa/Casablanca",
  "Asia/Beirut",
  "Asia/Kolkata",
  "Asia/Kathmandu",
  "America/St_Johns",
  "Pacific/Chatham",
  "Australia/Lord_Howe",
  "Pacific/Kiritimati",
] as const;

/** Whole days around every change of a clock, and some others. */
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

/** An answer: one list of buckets per endpoint, of a window in which it is now, or which is over. */
const anyAnswer = fc
  .record({
    name: fc.oneof(fc.constantFrom(...trickyZones), fc.constantFrom(...zoneNames)),
    size: fc.oneof(fc.constant("hour" as const), fc.constantFrom(...SIZES)),
    day: anyDay,
    length: fc.integer({ min: 0, max: 40 }),
    /** Where now is between the begin of the window and its end; 1 for a window that is over. */
    progress: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
    tellsFuture: fc.boolean(),
    order: fc.constantFrom("ascending", "descending", "none"),
    seed: fc.integer({ min: 1, max: 1_000_000 }),
    style: fc.constantFrom("cut" as const, "full" as const),
    kept: fc.array(fc.constantFrom(0.02, 0.3, 0.8, 1), { minLength: 1, maxLength: 3 }),
  })
  .map(({ name, size, day, length, progress, tellsFuture, order, seed, style, kept }) => {
    const zone = openZone(name);
    const from = firstDay(size, day);
    const to = size === "hour" ? from + 1 + (length % 7) : firstDay(size, from, 1 + (length % 5));
    const all = inStyle(style, size, bucketsBetween(size, zone, { from, to }));
    const [beginMs, endMs] = [all[0]?.startMs ?? 0, all.at(-1)?.endMs ?? 0];
    const answeredMs = progress === 1 ? endMs : Math.floor(beginMs + progress * (endMs - beginMs));
    const told = tellsFuture ? all : all.filter(({ startMs }) => startMs <= answeredMs);
    let dice = seed;
    const draw = () => (dice = (dice * 48_271) % 2_147_483_647) / 2_147_483_647;
    const ordered = (buckets: readonly Bucket[]): readonly Bucket[] => {
      if (order === "none")
        return buckets
          .map((b) => ({ b, at: draw() }))
          .toSorted((x, y) => x.at - y.at)
          .map(({ b }) => b);
      return order === "ascending" ? buckets : buckets.toReversed();
    };
    // Buckets of the future have zeros: who leaves out zeros leaves them out.
    const lists = kept.map((share) =>
      ordered(share === 1 ? told : all.filter(({ startMs }) => startMs <= answeredMs && draw() < share)),
    );
    return {
      size,
      zone,
      lists,
      isDense: kept.includes(1),
      isSorted: order !== "none",
      window: { from, to, reachesNow: progress < 1, answeredMs },
    };
  });

const isTwice = (bucket: Bucket, all: readonly Bucket[]) =>
  all.some((other) => other.startMs !== bucket.startMs && other.localMs === bucket.localMs);

/** Of local hours that come twice one alone, or two and nothing else, may be either. */
const isOneOfTwo = (bucket: Bucket, all: readonly Bucket[], list: readonly Bucket[]): boolean =>
  isTwice(bucket, all) && (!isTwice(bucket, list) || list.every(({ localMs }) => localMs === bucket.localMs));

describe("every count is placed in its bucket or refused", () => {
  test.each(Object.entries(manners).filter(([manner]) => !(manner in misleading)))(
    "where begins are written %s, in any order, with holes, up to now",
    (manner, write) => {
      fc.assert(
        fc.property(anyAnswer, ({ size, zone, lists, isSorted, window }) => {
          const starts = lists.map((list) => list.map(write));
          const placement = placeBuckets({ size, zone }, window, starts);
          for (const [i, list] of lists.entries()) {
            const placed = placement.place(starts[i] ?? []);
            for (const [k, bucket] of list.entries()) {
              const isLocal = manner.startsWith("local") && isTwice(bucket, placement.expected);
              // A list in no order may look as if it had one.
              if (isLocal && !isSorted) continue;
              const isUnclear = isLocal && isOneOfTwo(bucket, placement.expected, list);
              expect([starts[i]?.[k], placed[k]]).toEqual([starts[i]?.[k], isUnclear ? null : bucket]);
            }
          }
        }),
        { numRuns: 200 },
      );
    },
  );

  test.each(Object.entries(misleading))(
    "where begins are written %s, and one endpoint's list has no holes",
    (manner, write) => {
      fc.assert(
        fc.property(
          anyAnswer.filter(({ isDense }) => isDense),
          ({ size, zone, lists, isSorted, window }) => {
            const starts = lists.map((list) => list.map(write));
            const placement = placeBuckets({ size, zone }, window, starts);
            for (const [i, list] of lists.entries()) {
              const placed = placement.place(starts[i] ?? []);
              for (const [k, bucket] of list.entries()) {
                const isLocal = manner.startsWith("local") && isTwice(bucket, placement.expected);
                if (isLocal && (!isSorted || isOneOfTwo(bucket, placement.expected, list))) continue;
                // In summer time of no offset what is meant as UTC may be a local hour that comes twice.
                const mayBeLocal = bucket.startMs === bucket.localMs;
                if (mayBeLocal && isOneOfTwo(bucket, placement.expected, list) && placed[k] === null)
                  continue;
                expect([starts[i]?.[k], placed[k]]).toEqual([starts[i]?.[k], bucket]);
              }
            }
          },
        ),
        { numRuns: 200 },
      );
    },
  );
});

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
        fc.constantFrom("cut" as const, "full" as const),
        (name, size, day, length, isDescending, style) => {
          const zone = openZone(name);
          const from = firstDay(size, day);
          const to = size === "hour" ? from + 1 + (length % 7) : firstDay(size, from, 1 + (length % 5));
          const buckets = inStyle(style, size, bucketsBetween(size, zone, { from, to }));
          const told = isDescending ? buckets.toReversed() : buckets;
          const starts = told.map(write);
          const window = { from, to, reachesNow: false, answeredMs: AFTERWARDS };
          const placement = placeBuckets({ size, zone }, window, [starts, starts]);
          expect([starts, placement.place(starts)]).toEqual([starts, told]);
        },
      ),
      { numRuns: 60 },
    );
  });
});

const texts = (buckets: readonly (Bucket | null)[]) =>
  buckets.map((bucket) => bucket && `${wall(bucket.startMs)} to ${wall(bucket.endMs)}`);

const hoursIn = (
  zoneName: string,
  from: string,
  to: string,
  answered: string,
  starts: readonly string[],
): readonly (string | null)[] =>
  placeBuckets(
    { size: "hour", zone: openZone(zoneName) },
    { from: dayNumber(from), to: dayNumber(to), reachesNow: true, answeredMs: Date.parse(answered) },
    [starts],
  )
    .place(starts)
    .map((bucket) => bucket && wall(bucket.startMs));
/** Hours from one to another one (inclusive), as they stand. */
const hourly = (first: string, last: string, suffix = ""): readonly string[] => {
  const [firstMs, lastMs] = [Date.parse(`${first}Z`), Date.parse(`${last}Z`)];
  return Array.from(
    { length: (lastMs - firstMs) / 3_600_000 + 1 },
    (_, i) => wall(firstMs + i * 3_600_000) + suffix,
  );
};

/** In the night that has 01:00 twice. */
const hoursOfNewYork = (starts: readonly string[]) =>
  hoursIn("America/New_York", "2026-11-01", "2026-11-02", "2026-11-03T00:00:00Z", starts);

describe("a begin", () => {
  const zone = openZone("Africa/Cairo");
  const place = (
    size: (typeof SIZES)[number],
    from: string,
    to: string,
    starts: readonly unknown[],
    reachesNow = false,
  ) =>
    placeBuckets(
      { size, zone },
      { from: dayNumber(from), to: dayNumber(to), reachesNow, answeredMs: AFTERWARDS },
      [starts],
    ).place(starts);

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

  test("of an hour up to now is not read as UTC where it would lie in the future", () => {
    const local = hourly("2026-06-04T00:00:00", "2026-06-10T10:00:00", "Z");
    const placed = hoursIn("Europe/Berlin", "2026-06-04", "2026-06-11", "2026-06-10T08:30:00Z", local);
    expect([placed[0], placed.at(-1)]).toEqual(["2026-06-03T22:00:00", "2026-06-10T08:00:00"]);
    const utc = hourly("2026-06-03T22:00:00", "2026-06-10T08:00:00", "Z");
    expect(hoursIn("Europe/Berlin", "2026-06-04", "2026-06-11", "2026-06-10T08:30:00Z", utc)).toEqual(
      hourly("2026-06-03T22:00:00", "2026-06-10T08:00:00"),
    );
  });

  test("of an hour without a zone is not read as local where it would lie in the future", () => {
    const utc = hourly("2026-06-04T04:00:00", "2026-06-10T14:00:00");
    expect(hoursIn("America/New_York", "2026-06-04", "2026-06-11", "2026-06-10T14:30:00Z", utc)).toEqual(utc);
  });

  test("of a day in UTC without a zone is told from a local one across the begin of summer time", () => {
    const days = ["2026-03-28T00:00:00", "2026-03-29T00:00:00", "2026-03-29T23:00:00", "2026-03-30T23:00:00"];
    const london = { size: "day", zone: openZone("Europe/London") } as const;
    const window = { from: dayNumber("2026-03-28"), to: dayNumber("2026-04-01"), reachesNow: false };
    const placed = placeBuckets(london, { ...window, answeredMs: AFTERWARDS }, [days]).place(days);
    expect(placed.map((bucket) => bucket && wall(bucket.startMs))).toEqual(days);
  });

  test("of the hours of UTC in a zone with half hours has a place where all of the hour was read", () => {
    const starts = [
      "2026-06-03T23:30:00",
      "2026-06-04T00:30:00",
      "2026-06-04T22:30:00",
      "2026-06-04T23:30:00",
    ];
    const kolkata = { size: "hour", zone: openZone("Asia/Kolkata") } as const;
    const window = { from: dayNumber("2026-06-04"), to: dayNumber("2026-06-05"), answeredMs: AFTERWARDS };
    const offsets = starts.map((start) => `${start}+05:30`);
    const placed = (reachesNow: boolean) =>
      texts(placeBuckets(kolkata, { ...window, reachesNow }, [offsets]).place(offsets));
    const [first, second] = [
      "2026-06-03T19:00:00 to 2026-06-03T20:00:00",
      "2026-06-04T17:00:00 to 2026-06-04T18:00:00",
    ];
    expect(placed(false)).toEqual([null, first, second, null]);
    expect(placed(true)).toEqual([null, first, second, "2026-06-04T18:00:00 to 2026-06-04T19:00:00"]);
  });

  test("of an hour that may be UTC's or a local one has no place", () => {
    // With holes: half past in Kolkata's time, or the whole hour there.
    expect(
      hoursIn("Asia/Kolkata", "2026-06-04", "2026-06-11", "2026-06-11T12:00:00Z", ["2026-06-06T10:00:00Z"]),
    ).toEqual([null]);
  });

  test("of a local hour that comes twice has a place where the list tells which one is meant", () => {
    const twice = [
      "2026-11-01T00:00:00",
      "2026-11-01T01:00:00",
      "2026-11-01T01:00:00",
      "2026-11-01T02:00:00",
    ];
    const utc = ["2026-11-01T04:00:00", "2026-11-01T05:00:00", "2026-11-01T06:00:00", "2026-11-01T07:00:00"];
    expect(hoursOfNewYork(twice)).toEqual(utc);
    expect(hoursOfNewYork(twice.toReversed())).toEqual(utc.toReversed());
    expect(hoursOfNewYork(twice.slice(0, 2))).toEqual([utc[0], null]);
    expect(hoursOfNewYork(["2026-11-01T01:00:00", "2026-11-01T00:00:00", "2026-11-01T01:00:00"])).toEqual([
      null,
      utc[0],
      null,
    ]);
  });

  test.each(Object.entries(manners))(
    "of an hour that a change by half an hour falls into has a place, written %s",
    (_, write) => {
      const zone = openZone("Australia/Lord_Howe");
      for (const day of ["2026-04-05", "2026-10-04"].map(dayNumber)) {
        const window = { from: day, to: day + 1, reachesNow: false, answeredMs: AFTERWARDS };
        for (const style of ["cut", "full"] as const) {
          const buckets = inStyle(style, "hour", bucketsBetween("hour", zone, window));
          const starts = buckets.map(write);
          const placement = placeBuckets({ size: "hour", zone }, window, [starts]);
          expect([starts, placement.place(starts)]).toEqual([starts, buckets]);
          expect([placement.unclear, placement.unreadable]).toEqual([0, 0]);
        }
      }
    },
  );

  test("where no bucket begins is told", () => {
    const berlin = { size: "hour", zone: openZone("Europe/Berlin") } as const;
    const day = dayNumber("2026-06-04");
    const window = { from: day, to: day + 1, reachesNow: false, answeredMs: AFTERWARDS };
    const starts = ["2026-06-04T01:00:00+02:00", "2026-06-04T02:20:00+02:00"];
    const placement = placeBuckets(berlin, window, [starts]);
    expect(placement.place(starts).map((bucket) => bucket && wall(bucket.startMs))).toEqual([
      "2026-06-03T23:00:00",
      null,
    ]);
    expect(placement.unclear).toBe(1);
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
