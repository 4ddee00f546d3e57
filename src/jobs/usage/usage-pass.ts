import { z } from "zod";
import { cursorDay } from "../../load/inputs/cursor-values.ts";
import { type BucketingSize, dayNumber, dayText, firstDay, type Window, windowsOf } from "./calendar.ts";

/** Days after its end in which a bucket is read again, because the service corrects even final counts. */
export const CORRECTED_FOR_DAYS = 30;

/** Cursor of a stream, in local days. All days from `from` to `next` were last read {@link CORRECTED_FOR_DAYS} after their end. */
export const usageCursor = z.object({
  from: cursorDay,
  /** First day of the first bucket that is read again. */
  next: cursorDay,
});

/** Stored cursor. */
export type UsageCursor = z.output<typeof usageCursor>;

/** Windows to read in one run. */
export interface UsagePass {
  readonly windows: readonly Window[];
  /** Cursor after a window. `firstOpen` is the first day of its first bucket to read again; null without one. */
  after(window: Window, firstOpen: number | null): UsageCursor;
}

/** Plans a run: the history since `startDate`, or since the last run. */
export function planPass(
  size: BucketingSize,
  startDate: string,
  cursor: UsageCursor | null,
  today: number,
): UsagePass {
  const start = firstDay(size, dayNumber(startDate));
  const [begin, from] = beginOf(start, cursor, today);
  const windows = windowsOf(size, begin, today);
  let next: number | null = null;
  return {
    windows,
    after(window, firstOpen) {
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
