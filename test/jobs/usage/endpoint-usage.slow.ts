import { expect, test } from "vitest";
import { differences, goTo, sandboxClock, statedBuckets, storedBuckets } from "./usage-truth.ts";
import { configOf, startWorld, type World } from "../world.ts";

type Counting = readonly [size: string, zone: string, from: string];

/** One job per counting. */
const config = (countings: readonly Counting[]) =>
  configOf(
    countings
      .map(
        ([size, zone, from], i) =>
          `\n  usage_${i}: { type: endpoint_usage, bucketing_size: ${size}, timezone: ${zone}, start_date: ${from} }`,
      )
      .join(""),
  );

async function expectTrue(world: World, countings: readonly Counting[], to: string, label: string) {
  for (const [size, zone, from] of countings) {
    const stated = await statedBuckets(world, { size, zone, from, to });
    expect(stated.size).toBeGreaterThan(12);
    const found = differences(await storedBuckets(world, size, zone), stated);
    expect([label, zone, found]).toEqual([label, zone, []]);
  }
}

test.each<[string, readonly Counting[]]>([
  [
    "2026-11-10",
    [
      ["hour", "America/New_York", "2026-10-20"],
      ["hour", "Australia/Lord_Howe", "2026-10-01"],
      ["day", "UTC", "2026-01-01"],
      ["day", "Africa/Cairo", "2026-04-01"],
      ["day", "America/Santiago", "2026-08-20"],
      ["week", "Asia/Kathmandu", "2026-01-05"],
      ["month", "Pacific/Kiritimati", "2025-03-01"],
      ["quarter", "Europe/Berlin", "2025-01-01"],
      ["year", "America/St_Johns", "2024-01-01"],
    ],
  ],
  [
    "2027-04-10",
    [
      ["hour", "Australia/Lord_Howe", "2027-04-01"],
      ["hour", "Asia/Kolkata", "2027-04-01"],
    ],
  ],
])(
  "on %s, buckets of every size are what the service reports in zones of every kind, future ones left out",
  async (day, countings) => {
    const world = await startWorld({ rows: 0, people: 1000, config: config(countings) });
    await goTo(world, day);
    expect((await world.run({}, { clock: await sandboxClock(world) })).status).toBe("succeeded");
    // In Kiritimati it is already the next day.
    await expectTrue(world, countings, day.replace(/10$/, "11"), day);
  },
);
