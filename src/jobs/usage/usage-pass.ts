import { z } from "zod";
import { cursorDay } from "../../load/inputs/cursor-values.ts";
import {
  type BucketingSize,
  dayNumber,
  dayText,
  firstDay,
  type Window,
  windowsOf,
} from "./natural-buckets.ts";

/** Days before the first open bucket that are read again each time: even final counts are corrected now and then. */
const READ_AGAIN_DAYS = 30;

/** The cursor of a way of counting; days are local. */
export const usageCursor = z.object({
  /** First day that was ever read: from here to {@link next} every day was. */
  from: cursorDay,
  /** First day of the first bucket that was not final when it was last read. */
  next: cursorDay,
  /** Where a pass that was interrupted goes on; null after a whole one. */
  resume_at: cursorDay.nullable().default(null),
});

/** A cursor as it is stored. */
export type UsageCursor = z.output<typeof usageCursor>;

/** One reading of what is new since the last one. */
export interface UsagePass {
  readonly begin: number;
  readonly windows: readonly Window[];
  /** The cursor after a window. `firstOpen`: the first day of its first bucket that isn't final; null where all are. */
  after(window: Window, firstOpen: number | null): UsageCursor;
}

/** What a pass reads; `startDate` is where the history begins, `today` the local day by the service's clock. */
export function planPass(
  size: BucketingSize,
  startDate: string,
  cursor: UsageCursor | null,
  today: number,
): UsagePass {
  const start = dayNumber(startDate);
  const known = cursor && knownDays(cursor);
  const [begin, from] = beginOf(size, start, known, today);
  const windows = windowsOf(size, begin, today);
  let next: number | null = null;
  return {
    begin,
    windows,
    after(window, firstOpen) {
      next ??= firstOpen;
      return {
        from: dayText(from),
        next: dayText(next ?? window.to),
        resume_at: window === windows.at(-1) ? null : dayText(window.to),
      };
    },
  };
}

/** What a cursor says. */
interface KnownDays {
  readonly from: number;
  /** The first day that may have to be read: from `from` to there all have been. */
  readonly to: number;
  readonly isWhole: boolean;
  /** The latest day that it names. */
  readonly latest: number;
}

function knownDays({ from, next, resume_at }: UsageCursor): KnownDays {
  const resume = dayNumber(resume_at ?? next);
  return {
    from: dayNumber(from),
    to: Math.min(dayNumber(next), resume),
    isWhole: resume_at === null,
    latest: Math.max(dayNumber(next), resume),
  };
}

/** Where a pass begins, and the first of the days that have been read without a hole once it has ended. */
function beginOf(
  size: BucketingSize,
  startDay: number,
  known: KnownDays | null,
  today: number,
): readonly [begin: number, from: number] {
  const start = firstDay(size, startDay);
  // What lies before today alone can have been read. Of a cursor that says more nobody knows what is true.
  const isFirst = known === null || known.latest > today || start < known.from;
  // Days between would be in no pass, were `from` to stay and the start to be moved back.
  if (isFirst || start > known.to) return [start, start];
  const begin = firstDay(size, known.isWhole ? known.to - READ_AGAIN_DAYS : known.to);
  return [Math.max(start, begin), known.from];
}
