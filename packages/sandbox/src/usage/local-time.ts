/// <reference lib="esnext.temporal" />
import { DAY_MS } from "../population/calendar.ts";
import { QUARTER_MS } from "./usage.ts";

/** True for an IANA name of a time zone; offsets such as +05:00 are none. */
export function isTimeZone(name: string): boolean {
  try {
    return (
      /^[A-Za-z]/.test(name) && Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name) !== null
    );
  } catch {
    return false;
  }
}

/** First instant of the day `days` after a date (`YYYY-MM-DD`), also where midnight is skipped. */
export function startOfDay(timeZone: string, date: string, days = 0): number {
  return Temporal.PlainDate.from(date).add({ days }).toZonedDateTime(timeZone).epochMilliseconds;
}

/** Sizes of section 4.5. */
export const BUCKETING_SIZES = ["hour", "day", "week", "month", "quarter", "year"] as const;
type BucketingSize = (typeof BUCKETING_SIZES)[number];

/** Start of the bucket with a moment; weeks start on Monday, and the repeated hour is two buckets. */
function startOf(size: BucketingSize, at: Temporal.ZonedDateTime): Temporal.ZonedDateTime {
  if (size === "hour") return at.round({ smallestUnit: "hour", roundingMode: "floor" });
  const { dayOfWeek, month } = at;
  const firstDays = {
    day: at,
    week: at.subtract({ days: dayOfWeek - 1 }),
    month: at.with({ day: 1 }),
    quarter: at.with({ day: 1, month: month - ((month - 1) % 3) }),
    year: at.with({ day: 1, month: 1 }),
  };
  return firstDays[size].startOfDay();
}

/** Starts of the buckets from one instant (inclusive) to another (exclusive), in order; the first and the last may be cut. */
export function bucketsOf(size: BucketingSize, timeZone: string, fromMs: number, toMs: number) {
  const starts = new Map<number, string>();
  // Each quarter of an hour is in one bucket, and so is noon.
  const stepMs = size === "hour" ? QUARTER_MS : DAY_MS / 2;
  for (let atMs = fromMs; atMs < toMs; atMs += stepMs) {
    const at = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(timeZone);
    const start = startOf(size, at);
    const text = start.toString({ timeZoneName: "never", smallestUnit: "second" });
    starts.set(start.epochMilliseconds, text);
  }
  return [...starts].map(([startMs, text]) => ({ startMs, text }));
}
