import { type CountedCalls, type Counts, sumOf } from "./counts.ts";
import { type LocalTime, QUARTER_MS } from "./local-time.ts";

/** Sizes of section 4.5. */
export const BUCKETING_SIZES = ["hour", "day", "week", "month", "quarter", "year"] as const;
/** One of {@link BUCKETING_SIZES}. */
export type BucketingSize = (typeof BUCKETING_SIZES)[number];

const HOUR_MS = 3_600_000;

/** First local day of the bucket with a local day; weeks start on Monday. */
function firstDayOf(size: Exclude<BucketingSize, "hour">, day: number): number {
  if (size === "day") return day;
  // Day 0 was a Thursday.
  if (size === "week") return day - ((((day + 3) % 7) + 7) % 7);
  const date = new Date(day * 24 * HOUR_MS);
  const month = { month: date.getUTCMonth(), quarter: Math.floor(date.getUTCMonth() / 3) * 3, year: 0 }[size];
  return Date.UTC(date.getUTCFullYear(), month, 1) / (24 * HOUR_MS);
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
