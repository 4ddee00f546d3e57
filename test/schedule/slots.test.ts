import { describe, expect, it } from "vitest";
import { lastSlot, nextSlot, openSchedule, type Schedule, slotsFrom } from "../../src/schedule/schedule.ts";
import * as fc from "../support/fast-check.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const zones = Intl.supportedValuesOf("timeZone");

function scheduleOf(cron: string, zone: string): Schedule {
  const schedule = openSchedule(cron, zone);
  if (!schedule) throw new Error(`no schedule: ${cron}`);
  return schedule;
}

/** Slots between two instants, as `key = instant`. */
function between(cron: string, zone: string, from: string, until: string): readonly string[] {
  const found: string[] = [];
  for (const { key, atMs } of slotsFrom(scheduleOf(cron, zone), Date.parse(from))) {
    if (atMs > Date.parse(until)) break;
    found.push(`${key} = ${new Date(atMs).toISOString().slice(0, 16)}Z`);
  }
  return found;
}

describe("a schedule at fixed hours", () => {
  it("runs a skipped time once, at the first instant after the gap", () => {
    expect(between("*/30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T12:00Z")).toEqual([
      "2026-03-29T02:00 Europe/Berlin = 2026-03-29T01:00Z",
      "2026-03-29T02:30 Europe/Berlin = 2026-03-29T01:00Z",
      "2026-03-29T03:00 Europe/Berlin = 2026-03-29T01:00Z",
      "2026-03-29T03:30 Europe/Berlin = 2026-03-29T01:30Z",
    ]);
  });

  it.each([
    // Half an hour.
    ["Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00Z", "2026-10-03T15:30Z"],
    // Midnight itself is skipped.
    ["Asia/Beirut", "0 0 * * *", "2026-03-28T12:00Z", "2026-03-28T22:00Z"],
    // A whole day is skipped: Samoa had no 30 December 2011.
    ["Pacific/Apia", "0 5 30 12 *", "2011-12-29T00:00Z", "2011-12-30T10:00Z"],
  ])("in %s %s comes at the end of the gap", (zone, cron, from, expected) => {
    const slot = nextSlot(scheduleOf(cron, zone), Date.parse(from));
    expect(slot?.atMs).toBe(Date.parse(expected));
  });

  it("gives every day of every zone its slot exactly once, in order", () => {
    const times = fc.record({
      zone: fc.constantFrom(...zones),
      hour: fc.integer({ min: 0, max: 23 }),
      minute: fc.integer({ min: 0, max: 59 }),
      firstDay: fc.integer({ min: 12_000, max: 24_000 }),
    });
    fc.assert(
      fc.property(times, ({ zone, hour, minute, firstDay }) => {
        const days = 200;
        const seen: string[] = [];
        let lastMs = 0;
        for (const { key, atMs } of slotsFrom(
          scheduleOf(`${minute} ${hour} * * *`, zone),
          firstDay * DAY_MS,
        )) {
          expect(atMs).toBeGreaterThan(lastMs);
          lastMs = atMs;
          seen.push(key.slice(0, 10));
          if (seen.length === days) break;
        }
        const first = Date.parse(seen[0] ?? "");
        const expected = seen.map((_, i) => new Date(first + i * DAY_MS).toISOString().slice(0, 10));
        expect(seen).toEqual(expected);
      }),
      { numRuns: 40 },
    );
  });

  it("agrees with a clock read minute by minute, in every zone and around every change", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.integer({ min: 2000, max: 2036 }),
        fc.nat(),
        fc.integer({ min: 0, max: 47 }),
        (zone, year, which, halfHour) => {
          const wall = readClock(zone, changeIn(zone, year, which));
          const [middle = ""] = [...wall.values()].slice(1440);
          const cron = `${(halfHour % 2) * 30} ${Math.floor(halfHour / 2)} * * *`;
          const wanted = `${middle.slice(0, 10)}T${String(Math.floor(halfHour / 2)).padStart(2, "0")}:${halfHour % 2 === 0 ? "00" : "30"}`;
          const [startMs = 0] = wall.keys();
          const slots = slotsFrom(scheduleOf(cron, zone), startMs);
          for (const { key, atMs } of slots) {
            if (!key.startsWith(wanted)) continue;
            expect({ key, atMs }).toEqual({ key: `${wanted} ${zone}`, atMs: firstShown(wall, wanted) });
            return;
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("a schedule for every hour", () => {
  it("has every minute that fits and no other, in every zone", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.integer({ min: 2000, max: 2036 }),
        fc.nat(),
        fc.constantFrom(1, 5, 15, 20, 30, 60),
        (zone, year, which, step) => {
          const wall = readClock(zone, changeIn(zone, year, which));
          const expected = [...wall].filter(([, text]) => Number(text.slice(14, 16)) % step === 0);
          const [startMs = 0] = wall.keys();
          const found: number[] = [];
          for (const { atMs } of slotsFrom(
            scheduleOf(step === 60 ? "0 * * * *" : `*/${step} * * * *`, zone),
            startMs,
          )) {
            if (atMs >= startMs + wall.size * MINUTE_MS) break;
            found.push(atMs);
          }
          expect(found).toEqual(expected.map(([atMs]) => atMs));
        },
      ),
      { numRuns: 25 },
    );
  });
});

describe("a cron text", () => {
  it.each([
    ["0 0 1,15 * 1", "2026-11-01T12:00Z", "2026-11-02T00:00Z"], // the 1st, the 15th, and every Monday
    ["0 6 * * mon-fri", "2026-11-20T12:00Z", "2026-11-23T06:00Z"],
    ["0 6 * * 7", "2026-11-20T12:00Z", "2026-11-22T06:00Z"],
    ["0 6 29 2 *", "2026-11-20T12:00Z", "2028-02-29T06:00Z"],
    ["0 6 29 2 *", "2096-03-01T00:00Z", "2104-02-29T06:00Z"],
    ["10-50/20 22 31 * *", "2026-11-20T12:00Z", "2026-12-31T22:10Z"],
    ["0 */6 * jan *", "2026-11-20T12:00Z", "2027-01-01T00:00Z"],
  ])("%s after %s is due at %s", (cron, after, expected) => {
    expect(nextSlot(scheduleOf(cron, "UTC"), Date.parse(after))?.atMs).toBe(Date.parse(expected));
  });

  it.each([
    "0 0 30 2 *",
    "0 0 31 4,6 *",
    "0 0 L * *",
    "0 0 15W * *",
    "0 0 * * 5#2",
    "* * * * * *",
    "@daily",
    "",
  ])("%s is refused: never, or not the same everywhere", (cron) => {
    expect(openSchedule(cron, "UTC")).toBeNull();
  });
});

it("the last slot of a window counts both of its ends", () => {
  const daily = scheduleOf("0 2 * * *", "UTC");
  const at = Date.parse("2026-11-21T02:00Z");
  expect(lastSlot(daily, at - DAY_MS, at)?.atMs).toBe(at);
  expect(lastSlot(daily, at, at)?.atMs).toBe(at);
  expect(lastSlot(daily, at - DAY_MS, at - 1)?.atMs).toBe(at - DAY_MS);
  expect(lastSlot(daily, at + 1, at + DAY_MS - 1)).toBeNull();
});

/** An hour near a clock change in that year, or on any day in a zone without one. */
function changeIn(zone: string, year: number, which: number): number {
  const shown = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" });
  const offsetAt = (ms: number) => shown.format(ms).split(" ").at(-1);
  const startMs = Date.UTC(year, 0, 1);
  const changes = Array.from({ length: 365 }, (_, day) => startMs + day * DAY_MS).filter(
    (ms) => offsetAt(ms) !== offsetAt(ms + DAY_MS),
  );
  return changes[which % Math.max(1, changes.length)] ?? startMs + (which % 365) * DAY_MS;
}

/** Wall clock in every minute of three days around an instant: `2026-03-29T02:30` by instant. */
function readClock(zone: string, aroundMs: number): ReadonlyMap<number, string> {
  const shown = new Intl.DateTimeFormat("sv-SE", {
    timeZone: zone,
    dateStyle: "short",
    timeStyle: "short",
  });
  const startMs = aroundMs - DAY_MS;
  return new Map(
    Array.from({ length: 3 * 1440 }, (_, minute) => {
      const ms = startMs + minute * MINUTE_MS;
      return [ms, shown.format(ms).replace(" ", "T")] as const;
    }),
  );
}

/** First instant with a wall time, or the first after the gap that skips it. */
function firstShown(wall: ReadonlyMap<number, string>, wanted: string): number | undefined {
  let before = "9999";
  for (const [ms, text] of wall) {
    if (text === wanted || (before < wanted && text > wanted)) return ms;
    before = text;
  }
  return undefined;
}
