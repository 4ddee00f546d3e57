import { instantOf, type Zone } from "../../schedule/zone.ts";

/** Sizes of buckets (section 4.5). */
export type BucketingSize = "hour" | "day" | "week" | "month" | "quarter" | "year";

/** A bucket of time with its natural bounds. */
export interface Bucket {
  /** Begin (inclusive), milliseconds since the epoch. */
  readonly startMs: number;
  /** The begin on the wall clock, as if that were UTC. */
  readonly localMs: number;
  /** End (exclusive). */
  readonly endMs: number;
}

/** Days are whole numbers since 1970-01-01 on the zone's wall clock. */
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Offsets of today's zones, and the moments at which they change, are whole quarters of an hour. */
const QUARTER_MS = 900_000;
const MONTHS = { month: 1, quarter: 3, year: 12 } as const;

/** The number of a day `YYYY-MM-DD`. */
export function dayNumber(text: string): number {
  return Math.floor(Date.parse(`${text}T00:00:00Z`) / DAY_MS);
}

/** A day as `YYYY-MM-DD`. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

/** The local day on which an instant lies. */
export function dayAt(zone: Zone, atMs: number): number {
  return Math.floor((atMs + zone.offsetMs(atMs)) / DAY_MS);
}

/** The first instant of a local day, also where midnight is skipped. */
export function startOfDay(zone: Zone, day: number): number {
  return instantOf(zone, day * DAY_MS);
}

/** The first day of the bucket that a day lies in, or of one so many buckets later; weeks begin on Monday. */
export function firstDay(size: BucketingSize, day: number, bucketsLater = 0): number {
  if (size === "hour" || size === "day") return day + bucketsLater;
  // Day 0 was a Thursday.
  if (size === "week") return day - ((((day + 3) % 7) + 7) % 7) + bucketsLater * 7;
  const months = MONTHS[size];
  const date = new Date(day * DAY_MS);
  const month = (Math.floor(date.getUTCMonth() / months) + bucketsLater) * months;
  return Date.UTC(date.getUTCFullYear(), month, 1) / DAY_MS;
}

/** The bucket that begins with a local day, longer than an hour; null for a day that the zone left out. */
export function bucketOf(zone: Zone, day: number, nextDay: number): Bucket | null {
  const startMs = startOfDay(zone, day);
  const endMs = startOfDay(zone, nextDay);
  return endMs > startMs ? { startMs, localMs: startMs + zone.offsetMs(startMs), endMs } : null;
}

/**
 * Hours of a local day. One that comes twice is two buckets with one local time, one that is skipped is none; one into which a
 * change of the clock by half an hour falls is cut by it.
 */
function* hoursOf(zone: Zone, day: number): Generator<Bucket> {
  const dayEndMs = startOfDay(zone, day + 1);
  const begins: { readonly startMs: number; readonly offset: number; readonly hour: number }[] = [];
  for (let atMs = startOfDay(zone, day); atMs < dayEndMs; atMs += QUARTER_MS) {
    const offset = zone.offsetMs(atMs);
    const hour = Math.floor((atMs + offset) / HOUR_MS);
    const last = begins.at(-1);
    if (last?.offset !== offset || last.hour !== hour) begins.push({ startMs: atMs, offset, hour });
  }
  for (const [i, { startMs, offset }] of begins.entries()) {
    yield { startMs, localMs: startMs + offset, endMs: begins[i + 1]?.startMs ?? dayEndMs };
  }
}

/** Hours that a change cuts, each part named by the full hour on its own clock, though that began before the change. */
export function fullHours(hours: readonly Bucket[]): readonly Bucket[] {
  return hours.map((bucket) => {
    const late = bucket.localMs % HOUR_MS;
    if (late === 0) return bucket;
    const startMs = bucket.startMs - late;
    return { startMs, localMs: bucket.localMs - late, endMs: startMs + HOUR_MS };
  });
}

/** Every bucket of the local days from `from` (the first day of a bucket) to `to` (exclusive), in order. */
export function bucketsBetween(size: BucketingSize, zone: Zone, { from, to }: Window): readonly Bucket[] {
  const buckets: Bucket[] = [];
  for (let day = from; day < to; day = firstDay(size, day, 1)) {
    if (size === "hour") buckets.push(...hoursOf(zone, day));
    else {
      const bucket = bucketOf(zone, day, firstDay(size, day, 1));
      if (bucket) buckets.push(bucket);
    }
  }
  return buckets;
}

/** Some local days that are read with one call: from the first one (inclusive) to the last one (exclusive). */
export interface Window {
  readonly from: number;
  readonly to: number;
}

/** Buckets that one call reads: a few hundred kilobytes for a dozen endpoints at most. */
const BUCKETS_PER_CALL = { hour: 7, day: 92, week: 52, month: 24, quarter: 16, year: 10 } as const;

/** Windows on natural bounds from the bucket of `from` on, the last one ending with `today`. */
export function windowsOf(size: BucketingSize, from: number, today: number): readonly Window[] {
  const windows: Window[] = [];
  let start = firstDay(size, from);
  while (start <= today) {
    // For hours counted in days.
    const end = firstDay(size, start, BUCKETS_PER_CALL[size]);
    windows.push({ from: start, to: Math.min(end, today + 1) });
    start = end;
  }
  return windows;
}
