import { z } from "zod";
import { cursorDay } from "../../load/write/commit.ts";
import { instantOf, type Zone } from "../../schedule/zone.ts";

/** Sizes of buckets (section 4.5). */
export type BucketingSize = "hour" | "day" | "week" | "month" | "quarter" | "year";

export interface Bucket {
  /** Start (inclusive), milliseconds since the epoch. */
  readonly startMs: number;
  /** Start on the zone's wall clock, as if that were UTC. */
  readonly localMs: number;
  /** End (exclusive). */
  readonly endMs: number;
}

/** Local days read by one call, as day numbers: `from` is inclusive, `to` exclusive. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

/** Day numbers count days since 1970-01-01 on the zone's wall clock. */
export const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Offsets of current zones, and the times at which they change, are multiples of 15 minutes. */
const QUARTER_MS = 900_000;
const MONTHS = { month: 1, quarter: 3, year: 12 } as const;

/** Number of a day `YYYY-MM-DD`. */
export function dayNumber(text: string): number {
  return Math.floor(Date.parse(`${text}T00:00:00Z`) / DAY_MS);
}

/** Formats a day number as `YYYY-MM-DD`. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

export function dayAt(zone: Zone, atMs: number): number {
  return Math.floor((atMs + zone.offsetMs(atMs)) / DAY_MS);
}

/** First instant of a local day, even if the clock skips midnight. */
function startOfDay(zone: Zone, day: number): number {
  return instantOf(zone, day * DAY_MS);
}

/** First day of the bucket that contains a day, or of a later bucket; weeks start on Monday. */
export function firstDay(size: BucketingSize, day: number, bucketsLater = 0): number {
  if (size === "hour" || size === "day") return day + bucketsLater;
  // Day 0 was a Thursday.
  if (size === "week") return day - ((((day + 3) % 7) + 7) % 7) + bucketsLater * 7;
  const months = MONTHS[size];
  const date = new Date(day * DAY_MS);
  const month = (Math.floor(date.getUTCMonth() / months) + bucketsLater) * months;
  return Date.UTC(date.getUTCFullYear(), month, 1) / DAY_MS;
}

/** Starts of the hours of a local day: each full hour on the wall clock, and each change of the clock. */
function hourStarts(zone: Zone, day: number): readonly number[] {
  const starts: number[] = [];
  const dayEndMs = startOfDay(zone, day + 1);
  let offset = Number.NaN;
  for (let atMs = startOfDay(zone, day); atMs < dayEndMs; atMs += QUARTER_MS) {
    const before = offset;
    offset = zone.offsetMs(atMs);
    if (offset !== before || (atMs + offset) % HOUR_MS === 0) starts.push(atMs);
  }
  return starts;
}

/** Every bucket of a window that starts on a natural boundary, in order. */
export function bucketsBetween(size: BucketingSize, zone: Zone, { from, to }: Window): readonly Bucket[] {
  const starts: number[] = [];
  let day = from;
  for (; day < to; day = firstDay(size, day, 1)) {
    starts.push(...(size === "hour" ? hourStarts(zone, day) : [startOfDay(zone, day)]));
  }
  const endMs = startOfDay(zone, day);
  return starts.flatMap((startMs, i) => {
    const bucket = { startMs, localMs: startMs + zone.offsetMs(startMs), endMs: starts[i + 1] ?? endMs };
    // Zones that moved across the date line skipped a whole day.
    return bucket.endMs > startMs ? [bucket] : [];
  });
}

/** Buckets read by one call (days, if by the hour): at most a few hundred kilobytes for a dozen endpoints. */
const BUCKETS_PER_CALL = { hour: 7, day: 92, week: 52, month: 24, quarter: 16, year: 10 } as const;

/** Splits the days from the bucket of `from` to `today` into windows on natural boundaries; the last one ends with `today`. */
export function windowsOf(size: BucketingSize, from: number, today: number): readonly Window[] {
  const windows: Window[] = [];
  let start = firstDay(size, from);
  while (start <= today) {
    const end = firstDay(size, start, BUCKETS_PER_CALL[size]);
    windows.push({ from: start, to: Math.min(end, today + 1) });
    start = end;
  }
  return windows;
}

/** Days after its end in which a bucket is read again, because the service corrects even final counts. */
export const CORRECTED_FOR_DAYS = 30;

/** Cursor of a stream, in local days. All days from `from` to `next` were last read {@link CORRECTED_FOR_DAYS} after their end. */
export const usageCursor = z.object({
  from: cursorDay,
  /** First day of the first bucket that is read again. */
  next: cursorDay,
});

export type UsageCursor = z.output<typeof usageCursor>;

/** Plans a run: the history since `startDate`, or since the last run. */
export function planPass(size: BucketingSize, startDate: string, cursor: UsageCursor | null, today: number) {
  const start = firstDay(size, dayNumber(startDate));
  const [begin, from] = beginOf(start, cursor, today);
  const windows = windowsOf(size, begin, today);
  let next: number | null = null;
  return {
    windows,
    /** Cursor after a window. `firstOpen` is the first day of its first bucket to read again; null without one. */
    after(window: Window, firstOpen: number | null): UsageCursor {
      next ??= firstOpen;
      return { from: dayText(from), next: dayText(next ?? window.to) };
    },
  };
}

/** First day to read, and first day of the continuous range after the pass. */
function beginOf(
  start: number,
  cursor: UsageCursor | null,
  today: number,
): readonly [begin: number, from: number] {
  if (cursor === null) return [start, start];
  const [from, next] = [dayNumber(cursor.from), dayNumber(cursor.next)];
  // Days outside the cursor's range, or a cursor in the future: read everything from the start.
  if (start < from || start > next || next > today) return [start, start];
  // A clock that was ahead may have left out days that can still change.
  return [Math.max(start, Math.min(next, today - CORRECTED_FOR_DAYS)), from];
}
