import { instantOf, type Zone } from "../../schedule/zone.ts";
import { meaningOf, type Meant, type Reading, readStart, type Written } from "./bucket-starts.ts";
import {
  type Bucket,
  type BucketingSize,
  bucketsBetween,
  fullHours,
  type Window,
} from "./natural-buckets.ts";

/** A window as the service was asked for it. */
export interface AskedWindow extends Window {
  readonly reachesNow: boolean;
  /** The service's time when it answered. */
  readonly answeredMs: number;
}

/** Finds the bucket of each begin that one answer states; null for one that it can't be, or of which only a part was read. */
export interface Placement {
  /** The buckets of one endpoint, in the order of the answer. */
  place(starts: readonly unknown[]): readonly (Bucket | null)[];
  /** Every natural bucket of the window. */
  readonly expected: readonly Bucket[];
  /** Begins that aren't times. */
  readonly unreadable: number;
  /** Begins that may be those of two buckets, or are those of none: their counts have no place. */
  readonly unclear: number;
}

/** How well begins fit in one reading; what stands first weighs most. */
interface Fit {
  /** Where no bucket begins, outside of the window, or of a bucket that the same list has had. */
  misfits: number;
  /** After the answer, in a list that doesn't tell of the whole window. */
  future: number;
  /** Hours that the clock skips: a simple service may tell zeros of them. */
  skipped: number;
  /** Of buckets with natural bounds. */
  natural: number;
}

/** What is counted by. */
interface Grid {
  readonly size: BucketingSize;
  readonly zone: Zone;
}

const DAY_MS = 86_400_000;
const KINDS = ["offset", "utc", "none"] as const;

const ofKind = (kind: Written["kind"], starts: readonly (Written | null)[]): readonly Written[] =>
  starts.flatMap((start) => (start?.kind === kind ? [start] : []));

/** A placement by one style of hours, and how well that fits. */
interface Attempt extends Placement {
  readonly fit: Fit;
}

/**
 * Begins come in the zone's time, with its offset, in UTC, or without a zone. With `Z` or nothing they mean what they say,
 * UTC or local time, unless all of an answer's fit the window better in the other reading. Of an answer with holes that can
 * leave it open; what then has natural bounds in the other reading only is not placed. Where the clock changes by half an
 * hour, hours are cut by the change unless an answer's begins fit full ones better.
 */
export function placeBuckets(
  grid: Grid,
  window: AskedWindow,
  lists: readonly (readonly unknown[])[],
): Placement {
  const read = lists.map((list) => list.map(readStart));
  const cut = bucketsBetween(grid.size, grid.zone, window);
  const full = grid.size === "hour" ? fullHours(cut) : cut;
  const placement = placeIn(grid, window, read, cut);
  if (cut.every((bucket, i) => bucket === full[i])) return placement;
  const other = placeIn(grid, window, read, full);
  const [mine, theirs] = [placement.fit, other.fit];
  const preference =
    theirs.misfits - mine.misfits || theirs.skipped - mine.skipped || mine.natural - theirs.natural;
  return preference < 0 ? other : placement;
}

function placeIn(
  grid: Grid,
  window: AskedWindow,
  read: readonly (readonly (Written | null)[])[],
  expected: readonly Bucket[],
): Attempt {
  const fromMs = instantOf(grid.zone, window.from * DAY_MS);
  const toMs = instantOf(grid.zone, window.to * DAY_MS);
  const natural = new Set(expected);
  const mean = meaningOf(grid, expected);

  const overlaps = ({ startMs, endMs }: Bucket): boolean => endMs > fromMs && startMs < toMs;

  const addFit = (fit: Fit, meanings: readonly Meant[]): void => {
    const taken = new Map<number, Bucket>();
    for (const meant of meanings) {
      if (meant === "skipped") fit.skipped += 1;
      else if (!meant || !overlaps(meant.bucket) || taken.has(meant.bucket.startMs)) fit.misfits += 1;
      else taken.set(meant.bucket.startMs, meant.bucket);
    }
    const buckets = [...taken.values()];
    const known = buckets.filter((bucket) => natural.has(bucket)).length;
    fit.natural += known;
    if (known < expected.length) {
      fit.future += buckets.filter(({ startMs }) => startMs > window.answeredMs).length;
    }
  };
  const fitOf = (kind: Written["kind"], reading: Reading): Fit => {
    const fit = { misfits: 0, future: 0, skipped: 0, natural: 0 };
    for (const list of read) addFit(fit, mean(ofKind(kind, list), reading));
    return fit;
  };

  /** Null where it can't be told. */
  const choose = (kind: Written["kind"], literal: Reading): Reading | null => {
    const other = literal === "instant" ? "local" : "instant";
    const [mine, theirs] = [fitOf(kind, literal), fitOf(kind, other)];
    const preference =
      theirs.misfits - mine.misfits || theirs.future - mine.future || theirs.skipped - mine.skipped;
    if (preference !== 0) return preference > 0 ? literal : other;
    return mine.natural >= theirs.natural ? literal : null;
  };
  // Who writes offsets writes them rightly where they are zero.
  const hasOffsets = read.some((list) => ofKind("offset", list).length > 0);
  const readings: Readonly<Record<Written["kind"], Reading | null>> = {
    offset: "instant",
    utc: hasOffsets ? "instant" : choose("utc", "instant"),
    none: choose("none", "local"),
  };

  /** Null unless all of it was read. */
  const wholeOf = (meant: Meant | undefined): Bucket | null => {
    if (!meant || meant === "skipped" || !meant.isSure) return null;
    const { bucket } = meant;
    if (natural.has(bucket)) return bucket;
    return bucket.startMs >= fromMs && (bucket.endMs <= toMs || window.reachesNow) ? bucket : null;
  };

  const isUnclear = (meant: Meant | undefined, { atMs }: Written): boolean => {
    if (meant === "skipped") return false;
    if (!meant) return atMs > fromMs - DAY_MS && atMs < toMs + DAY_MS;
    return overlaps(meant.bucket) && !meant.isSure;
  };
  /** Begins of one way of writing in one list that don't tell which bucket is meant. */
  const unclearOf = (kind: Written["kind"], list: readonly (Written | null)[]): number => {
    const [reading, same] = [readings[kind], ofKind(kind, list)];
    if (reading === null) return same.length;
    const meanings = mean(same, reading);
    return same.filter((start, i) => isUnclear(meanings[i], start)).length;
  };
  const fit = KINDS.map((kind) => fitOf(kind, readings[kind] ?? "instant"));
  const sumOf = (of: keyof Fit): number => fit.reduce((sum, one) => sum + one[of], 0);

  return {
    expected,
    fit: {
      misfits: sumOf("misfits"),
      future: sumOf("future"),
      skipped: sumOf("skipped"),
      natural: sumOf("natural"),
    },
    unclear: read.reduce(
      (sum, list) => sum + KINDS.reduce((ofList, kind) => ofList + unclearOf(kind, list), 0),
      0,
    ),
    unreadable: read.flat().filter((start) => start === null).length,
    place(starts) {
      const list = starts.map(readStart);
      const found = new Map<Written, Bucket | null>();
      for (const kind of KINDS) {
        const reading = readings[kind];
        const same = ofKind(kind, list);
        const meant = reading ? mean(same, reading) : [];
        for (const [i, start] of same.entries()) found.set(start, wholeOf(meant[i]));
      }
      return list.map((start) => (start && found.get(start)) ?? null);
    },
  };
}
