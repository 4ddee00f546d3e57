/// <reference lib="esnext.temporal" />
import { describe, expect, test } from "vitest";
import { bucketsBetween, dayNumber, dayText, firstDay, windowsOf } from "../../../src/jobs/usage/calendar.ts";
import { anyZone, SIZES } from "./zones.ts";
import { openZone } from "../../../src/schedule/zone.ts";
import * as fc from "../../support/fast-check.ts";

const dayArbitrary = fc.integer({ min: dayNumber("2024-01-01"), max: dayNumber("2030-01-01") });
const plainDate = (day: number) => Temporal.PlainDate.from(dayText(day));
const startByTemporal = (zone: string, day: number) => plainDate(day).toZonedDateTime(zone).epochMilliseconds;
const at = (ms: number) => new Date(ms).toISOString();

describe("buckets", () => {
  test("of a day that was left out at the date line are none", () => {
    const days = { from: dayNumber("2011-12-29"), to: dayNumber("2012-01-01") };
    for (const [size, count] of [
      ["day", 2],
      ["hour", 48],
    ] as const) {
      expect(bucketsBetween(size, openZone("Pacific/Apia"), days)).toHaveLength(count);
    }
  });

  test("of every size but hours follow each other without hole or overlap, and start where Temporal says", () => {
    fc.assert(
      fc.property(
        anyZone,
        fc.constantFrom(...SIZES.filter((size) => size !== "hour")),
        dayArbitrary,
        fc.integer({ min: 1, max: 800 }),
        (name, size, day, length) => {
          const from = firstDay(size, day);
          const buckets = bucketsBetween(size, openZone(name), { from, to: day + length });
          for (const [i, { startMs, localMs, endMs }] of buckets.entries()) {
            expect(endMs).toBeGreaterThan(startMs);
            expect(startMs).toBe(i === 0 ? startByTemporal(name, from) : buckets[i - 1]?.endMs);
            const local = Temporal.Instant.fromEpochMilliseconds(startMs).toZonedDateTimeISO(name);
            expect(at(localMs).slice(0, 19)).toBe(
              local.toPlainDateTime().toString({ smallestUnit: "second" }),
            );
          }
          expect(buckets.at(-1)?.endMs).toBeGreaterThanOrEqual(startByTemporal(name, day + length));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("of hours follow each other without hole or overlap, each under one hour of the clock and one offset", () => {
    fc.assert(
      fc.property(anyZone, dayArbitrary, (name, day) => {
        const zone = openZone(name);
        const buckets = bucketsBetween("hour", zone, { from: day, to: day + 1 });
        expect(buckets[0]?.startMs).toBe(startByTemporal(name, day));
        expect(buckets.at(-1)?.endMs).toBe(startByTemporal(name, day + 1));
        expect(buckets.slice(1).map(({ startMs }) => startMs)).toEqual(
          buckets.slice(0, -1).map(({ endMs }) => endMs),
        );
        for (const { startMs, localMs, endMs } of buckets) {
          const clocks = [startMs, endMs - 1].map((ms) =>
            Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(name),
          );
          expect(at(localMs).slice(0, 19)).toBe(
            clocks[0]?.toPlainDateTime().toString({ smallestUnit: "second" }),
          );
          expect(new Set(clocks.map(({ hour, offset }) => `${hour} ${offset}`)).size).toBe(1);
        }
      }),
      { numRuns: 60 },
    );
  });
});

describe("windows", () => {
  test("start and end on natural boundaries, without hole or overlap, and the last one ends today", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...SIZES),
        dayArbitrary,
        fc.integer({ min: 0, max: 3000 }),
        (size, from, length) => {
          const today = from + length;
          const windows = windowsOf(size, from, today);
          expect(windows[0]?.from).toBe(firstDay(size, from));
          expect(windows.at(-1)?.to).toBe(today + 1);
          for (const window of windows) {
            expect(firstDay(size, window.from)).toBe(window.from);
            expect(window.to).toBeGreaterThan(window.from);
          }
          expect(windows.slice(1).map((window) => window.from)).toEqual(
            windows.slice(0, -1).map((window) => window.to),
          );
        },
      ),
    );
  });

  test("are none if the first day is in the future", () => {
    expect(windowsOf("day", dayNumber("2026-06-11"), dayNumber("2026-06-10"))).toEqual([]);
  });
});
