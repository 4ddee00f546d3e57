import { instantText } from "../../schemas/convert.ts";
import { type Bucket, type BucketingSize, DAY_MS } from "./calendar.ts";

/** Start of a bucket in a response. */
interface WrittenStart {
  /** The instant, or the wall-clock time as if it were UTC. */
  readonly atMs: number;
  /** True without an offset or `Z`. */
  readonly isLocal: boolean;
}

/** Null if the value is not a time. */
function readStart(value: unknown): WrittenStart | null {
  if (typeof value !== "string") return null;
  const text = instantText(/^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00:00` : value);
  if (text === null) return null;
  return { atMs: Date.parse(text), isLocal: !/(?:[Zz]|[+-]\d\d:?(?:\d\d)?)$/.test(value.slice(10)) };
}

/** Local starts in chronological order; null if the list is neither ascending nor descending. */
function inOrder(starts: readonly WrittenStart[]): readonly WrittenStart[] | null {
  const steps = starts.slice(1).map(({ atMs }, i) => atMs - (starts[i]?.atMs ?? 0));
  if (steps.every((step) => step >= 0)) return starts;
  return steps.every((step) => step <= 0) ? starts.toReversed() : null;
}

/**
 * Finds the calendar's bucket for each start in a list; null if none matches. A start with offset or `Z` is an instant,
 * others are local time. Two hours with the same local time are distinguished by their order, if the list has both.
 */
export function placeBuckets(
  size: BucketingSize,
  calendar: readonly Bucket[],
  starts: readonly unknown[],
): readonly (Bucket | null)[] {
  const byInstant = new Map(calendar.map((bucket) => [bucket.startMs, bucket]));
  const byLocal = new Map(Map.groupBy(calendar, ({ localMs }) => localMs));
  if (size !== "hour") {
    // A day whose midnight is skipped may also be listed with midnight as its start.
    for (const bucket of calendar) byLocal.set(Math.floor(bucket.localMs / DAY_MS) * DAY_MS, [bucket]);
  }
  const read = starts.map(readStart);
  const local = read.flatMap((start) => (start?.isLocal ? [start] : []));
  const ordered = inOrder(local);
  const namesakes = Map.groupBy(ordered ?? local, ({ atMs }) => atMs);
  return read.map((start) => {
    if (start === null) return null;
    if (!start.isLocal) return byInstant.get(start.atMs) ?? null;
    const [candidates = [], same = []] = [byLocal.get(start.atMs), namesakes.get(start.atMs)];
    const isClear = candidates.length === same.length && (same.length === 1 || ordered !== null);
    return (isClear && candidates[same.indexOf(start)]) || null;
  });
}
