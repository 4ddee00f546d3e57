import { DAY_MS } from "../population/calendar.ts";
import { type CountedCalls, type Counts, QUARTER_MS, sumOf } from "./usage.ts";

const HOUR_MS = 3_600_000;

const two = (number: number) => String(Math.floor(number)).padStart(2, "0");

export type LocalTime = NonNullable<ReturnType<typeof localTime>>;

/** Wall clock of a time zone; null for a name that isn't an IANA time zone. */
export function localTime(timeZone: string) {
  // Offsets such as +05:00, which Intl takes too, are no names.
  if (!/^[A-Za-z]/.test(timeZone)) return null;
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" });
  } catch {
    return null;
  }
  const known = new Map<number, number>();
  const offsetMs = (atMs: number): number => {
    const quarter = Math.floor(atMs / QUARTER_MS);
    const kept = known.get(quarter);
    if (kept !== undefined) return kept;
    // Swedish writes 2026-03-08 02:30:00.
    const wall = Date.parse(`${format.format(quarter * QUARTER_MS).replace(" ", "T")}Z`);
    const offset = wall - quarter * QUARTER_MS;
    known.set(quarter, offset);
    return offset;
  };
  const dayAt = (atMs: number) => Math.floor((atMs + offsetMs(atMs)) / DAY_MS);
  return {
    /** Milliseconds that the wall clock is ahead of UTC. */
    offsetMs,
    /** Local day number (days since 1970-01-01 on the wall clock). */
    dayAt,
    /** The first instant of a local day, also where midnight is skipped. */
    startOfDay(day: number): number {
      const guess = day * DAY_MS - offsetMs(day * DAY_MS);
      let atMs = guess - 3 * HOUR_MS;
      if (dayAt(guess) === day && dayAt(guess - QUARTER_MS) < day) return guess;
      while (dayAt(atMs) < day) atMs += QUARTER_MS;
      return atMs;
    },
    /** ISO 8601 with the zone's offset, whole seconds. */
    text(atMs: number): string {
      const offset = offsetMs(atMs);
      const minutes = Math.abs(offset) / 60_000;
      const wall = new Date(atMs + offset).toISOString().slice(0, 19);
      return `${wall}${offset < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
    },
  };
}

/** Sizes of section 4.5. */
export const BUCKETING_SIZES = ["hour", "day", "week", "month", "quarter", "year"] as const;
export type BucketingSize = (typeof BUCKETING_SIZES)[number];

/** First local day of the bucket with a local day; weeks start on Monday. */
function firstDayOf(size: Exclude<BucketingSize, "hour">, day: number): number {
  if (size === "day") return day;
  // Day 0 was a Thursday.
  if (size === "week") return day - ((((day + 3) % 7) + 7) % 7);
  const date = new Date(day * DAY_MS);
  const month = { month: date.getUTCMonth(), quarter: Math.floor(date.getUTCMonth() / 3) * 3, year: 0 }[size];
  return Date.UTC(date.getUTCFullYear(), month, 1) / DAY_MS;
}

/**
 * Start of the bucket with an instant. The repeated hour is two buckets; an hour in which the clock changes is
 * cut at the change.
 */
function startOf(size: BucketingSize, local: LocalTime, atMs: number): number {
  if (size !== "hour") return local.startOfDay(firstDayOf(size, local.dayAt(atMs)));
  const offset = local.offsetMs(atMs);
  let startMs = atMs - ((((atMs + offset) % HOUR_MS) + HOUR_MS) % HOUR_MS);
  while (local.offsetMs(startMs) !== offset) startMs += QUARTER_MS;
  return startMs;
}

/** Every bucket between two instants by its start, in order; the range cuts the first and the last one. */
export function fillBuckets(
  size: BucketingSize,
  local: LocalTime,
  range: { readonly fromMs: number; readonly toMs: number },
  calls: readonly CountedCalls[],
): ReadonlyMap<number, Counts> {
  const byStart = Map.groupBy(calls, ({ atMs }) => startOf(size, local, atMs));
  const buckets = new Map<number, Counts>();
  // Each quarter of an hour is in one bucket, and so is noon.
  const stepMs = size === "hour" ? QUARTER_MS : 12 * HOUR_MS;
  for (let atMs = range.fromMs; atMs < range.toMs; atMs += stepMs) {
    const start = startOf(size, local, atMs);
    if (!buckets.has(start)) buckets.set(start, sumOf(byStart.get(start) ?? []));
  }
  return buckets;
}
