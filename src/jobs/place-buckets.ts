import { type Zone, instantOf } from "../schedule/zone.ts";
import { instantText } from "../schemas/convert.ts";
import {
  type Bucket,
  bucketOf,
  type BucketingSize,
  bucketsBetween,
  firstDay,
  type Window,
} from "./natural-buckets.ts";

/** A begin as the service wrote it. */
interface Written {
  /** With a zone: the instant. Without one: the same as {@link wallMs}. */
  readonly atMs: number;
  /** What stands there, as if it were UTC. */
  readonly wallMs: number;
  /** An offset other than zero leaves no doubt; `Z` and `+00:00` may also stand behind a local time. */
  readonly zone: "offset" | "utc" | "none";
}

/** Finds the bucket of each begin that one answer states; null for one that it can't be, or of which only a part was read. */
export interface Placement {
  /** The buckets of one endpoint, in the order of the answer. */
  place(starts: readonly unknown[]): readonly (Bucket | null)[];
  /** Every natural bucket of the window. */
  readonly expected: readonly Bucket[];
  /** Begins that aren't times. */
  readonly unreadable: number;
}

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** How far the begin of a day without a midnight may be stated from its first instant. */
const SKIPPED_MS = 3 * HOUR_MS;

function readStart(value: unknown): Written | null {
  if (typeof value !== "string") return null;
  const text = /^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00:00` : value;
  const [suffix = ""] = /(?:[Zz]|[+-]\d\d:?(?:\d\d)?)$/.exec(text.slice(10)) ?? [];
  const [instant, wall] = [instantText(text), instantText(text.slice(0, text.length - suffix.length).trim())];
  if (instant === null || wall === null) return null;
  const [atMs, wallMs] = [Date.parse(instant), Date.parse(wall)];
  return { atMs, wallMs, zone: suffix === "" ? "none" : atMs === wallMs ? "utc" : "offset" };
}

/** By local begin: one bucket, or the two of an hour that comes twice. */
function byLocalStart(
  size: BucketingSize,
  buckets: readonly Bucket[],
): ReadonlyMap<number, readonly Bucket[]> {
  return Map.groupBy(buckets, ({ localMs }) => localKey(size, localMs));
}

/** From day on, the day alone says which bucket is meant. */
function localKey(size: BucketingSize, wallMs: number): number {
  return size === "hour" ? wallMs : Math.floor(wallMs / DAY_MS);
}

/**
 * Begins come in the zone's time, with its offset, in UTC, or without a zone; of what leaves open whether it is local or UTC,
 * all of one answer is read in the way that fits more of the window's buckets.
 */
export function placeBuckets(
  { size, zone }: { readonly size: BucketingSize; readonly zone: Zone },
  window: Window & { readonly reachesNow: boolean },
  allStarts: readonly unknown[],
): Placement {
  const expected = bucketsBetween(size, zone, window.from, window.to);
  const byInstant = new Map(expected.map((bucket) => [bucket.startMs, bucket]));
  const byLocal = byLocalStart(size, expected);
  const fromMs = instantOf(zone, window.from * DAY_MS);
  const toMs = instantOf(zone, window.to * DAY_MS);

  const written = allStarts.flatMap((start) => readStart(start) ?? []);
  const hits = {
    utc: { instant: 0, local: 0 },
    none: { instant: 0, local: 0 },
    offset: { instant: 0, local: 0 },
  };
  for (const { zone: kind, atMs, wallMs } of written) {
    if (byInstant.has(atMs)) hits[kind].instant += 1;
    if (byLocal.has(localKey(size, wallMs))) hits[kind].local += 1;
  }
  const isLocal = {
    utc: hits.utc.local > hits.utc.instant,
    none: hits.none.local >= hits.none.instant,
    offset: false,
  };

  /** A bucket with bounds of the service's own, such as weeks that begin on Sunday; null unless all of it was read. */
  const unexpected = (startMs: number): Bucket | null => {
    if (startMs < fromMs || startMs >= toMs) return null;
    const localMs = startMs + zone.offsetMs(startMs);
    if (size === "hour") return { startMs, localMs, endMs: startMs + HOUR_MS };
    const day = Math.floor(localMs / DAY_MS);
    const bucket = bucketOf(zone, day, size === "week" ? day + 7 : firstDay(size, day, 1));
    return bucket && (bucket.endMs <= toMs || window.reachesNow) ? { ...bucket, startMs, localMs } : null;
  };
  const placeOne = (start: Written, seen: Map<number, number>): Bucket | null => {
    const key = localKey(size, start.wallMs);
    const candidates = byLocal.get(key) ?? [];
    if (isLocal[start.zone]) {
      const times = seen.get(key) ?? 0;
      seen.set(key, times + 1);
      return candidates[times] ?? candidates.at(-1) ?? unexpected(instantOf(zone, start.wallMs));
    }
    const exact = byInstant.get(start.atMs);
    if (exact) return exact;
    const near = size === "hour" || start.zone !== "offset" ? undefined : candidates[0];
    return near && Math.abs(near.startMs - start.atMs) <= SKIPPED_MS ? near : unexpected(start.atMs);
  };

  return {
    expected,
    unreadable: allStarts.length - written.length,
    place(starts) {
      const read = starts.map(readStart);
      const seen = new Map<number, number>();
      const first = read.find((start) => start !== null);
      const last = read.findLast((start) => start !== null);
      // Of two equal local hours the earlier one is the first in the order of time.
      const isDescending = first && last && first.atMs > last.atMs;
      const inOrder = isDescending ? read.toReversed() : read;
      const placed = inOrder.map((start) => start && placeOne(start, seen));
      return isDescending ? placed.toReversed() : placed;
    },
  };
}
