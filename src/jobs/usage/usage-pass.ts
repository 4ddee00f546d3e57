import { z } from "zod";
import { cursorDay } from "../../load/inputs/cursor-values.ts";
import { type BucketingSize, dayNumber, dayText, firstDay, type Window, windowsOf } from "./calendar.ts";

/** Days before today that each run reads again: the service corrects even final counts. */
const READ_AGAIN_DAYS = 30;

/** Cursor of a stream; days are local. Every day from `from` to `next` was read when it was final. */
export const usageCursor = z.object({
  from: cursorDay,
  /** First day of the first bucket that was not final when it was last read. */
  next: cursorDay,
});

/** A stored cursor. */
export type UsageCursor = z.output<typeof usageCursor>;

/** Windows that one run reads. */
export interface UsagePass {
  readonly windows: readonly Window[];
  /** Cursor after a window; `firstOpen` is the first day of its first bucket that isn't final, null if all are final. */
  after(window: Window, firstOpen: number | null): UsageCursor;
}

/** Plans a run: the history from `startDate` on, or from where the last run got to. */
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

/** First day to read, and the first of the days that are complete after the pass. */
function beginOf(
  start: number,
  cursor: UsageCursor | null,
  today: number,
): readonly [begin: number, from: number] {
  if (cursor === null) return [start, start];
  const [from, next] = [dayNumber(cursor.from), dayNumber(cursor.next)];
  // Days outside of the cursor's, or a cursor from the future: everything is read from the start.
  if (start < from || start > next || next > today) return [start, start];
  return [Math.max(start, Math.min(next, today - READ_AGAIN_DAYS)), from];
}
