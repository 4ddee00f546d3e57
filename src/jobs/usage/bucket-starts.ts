import { instantOf, type Zone } from "../../schedule/zone.ts";
import { instantText } from "../../schemas/convert.ts";
import { type Bucket, bucketOf, type BucketingSize, firstDay } from "./natural-buckets.ts";

/** A begin as the service wrote it. */
export interface Written {
  /** With a zone: the instant. Without one: the same as {@link wallMs}. */
  readonly atMs: number;
  /** What stands there, as if it were UTC. */
  readonly wallMs: number;
  /** An offset other than zero leaves no doubt; `Z` and `+00:00` may also stand behind a local time. */
  readonly kind: "offset" | "utc" | "none";
}

/** How a begin is taken: as an instant (UTC if nothing is said), or as a time on the zone's wall clock. */
export type Reading = "instant" | "local";

/** What a begin means in one reading; "skipped" for an hour that the wall clock leaves out, null where nothing begins. */
export type Meant =
  | {
      readonly bucket: Bucket;
      /** False for one of two hours with the same local time, where the list doesn't tell which. */
      readonly isSure: boolean;
    }
  | "skipped"
  | null;

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** How far the begin of a day without a midnight may be stated from its first instant. */
const SKIPPED_MS = 3 * HOUR_MS;

/** Null for what is no time. */
export function readStart(value: unknown): Written | null {
  if (typeof value !== "string") return null;
  const text = /^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00:00` : value;
  const [suffix = ""] = /(?:[Zz]|[+-]\d\d:?(?:\d\d)?)$/.exec(text.slice(10)) ?? [];
  const [instant, wall] = [instantText(text), instantText(text.slice(0, text.length - suffix.length).trim())];
  if (instant === null || wall === null) return null;
  const [atMs, wallMs] = [Date.parse(instant), Date.parse(wall)];
  return { atMs, wallMs, kind: suffix === "" ? "none" : atMs === wallMs ? "utc" : "offset" };
}

const midnightOf = (wallMs: number): number => Math.floor(wallMs / DAY_MS) * DAY_MS;

/** By local begin: one bucket, or the two of an hour that comes twice. A day without a midnight is known by that as well. */
function byLocalStart(
  size: BucketingSize,
  buckets: readonly Bucket[],
): ReadonlyMap<number, readonly Bucket[]> {
  const found = Map.groupBy(buckets, ({ localMs }) => localMs);
  if (size === "hour") return found;
  return new Map([...found, ...[...found].map(([localMs, same]) => [midnightOf(localMs), same] as const)]);
}

/** Begins with the same local time, by that, in the order of time; unsure where the list has no order. */
function twinsOf(starts: readonly Written[]) {
  const steps = starts.slice(1).map(({ wallMs }, i) => wallMs - (starts[i]?.wallMs ?? 0));
  const isDescending = steps.every((step) => step <= 0);
  // Equal ones alone have no direction.
  const isSorted = isDescending !== steps.every((step) => step >= 0);
  return {
    isSorted,
    byTime: Map.groupBy(isDescending ? starts.toReversed() : starts, ({ wallMs }) => wallMs),
  };
}

const sure = (bucket: Bucket | null): Meant => bucket && { bucket, isSure: true };

/** Makes out what the begins of one list mean, in its order; `expected` are the natural buckets of the window. */
export function meaningOf(
  { size, zone }: { readonly size: BucketingSize; readonly zone: Zone },
  expected: readonly Bucket[],
): (starts: readonly Written[], reading: Reading) => readonly Meant[] {
  const byInstant = new Map(expected.map((bucket) => [bucket.startMs, bucket]));
  const byLocal = byLocalStart(size, expected);
  /** A bucket with bounds of the service's own, such as weeks that begin on Sunday, or the hours of UTC. */
  const unexpected = (startMs: number): Bucket | null => {
    const localMs = startMs + zone.offsetMs(startMs);
    if (size === "hour") {
      return startMs % HOUR_MS === 0 ? { startMs, localMs, endMs: startMs + HOUR_MS } : null;
    }
    const day = Math.floor(localMs / DAY_MS);
    const bucket = bucketOf(zone, day, size === "week" ? day + 7 : firstDay(size, day, 1));
    return bucket?.startMs === startMs ? bucket : null;
  };

  const asInstant = ({ kind, atMs, wallMs }: Written): Meant => {
    const exact = byInstant.get(atMs);
    if (exact) return sure(exact);
    const near = size === "hour" || kind !== "offset" ? undefined : byLocal.get(midnightOf(wallMs))?.[0];
    return sure(near && Math.abs(near.startMs - atMs) <= SKIPPED_MS ? near : unexpected(atMs));
  };

  const asLocal = (start: Written, { isSorted, byTime }: ReturnType<typeof twinsOf>): Meant => {
    const { wallMs } = start;
    const [first, second] = byLocal.get(wallMs) ?? [];
    if (first && second) {
      const twins = byTime.get(wallMs) ?? [];
      return { bucket: twins.indexOf(start) === 0 ? first : second, isSure: isSorted && twins.length === 2 };
    }
    if (first) return sure(first);
    const atMs = instantOf(zone, wallMs);
    const isReal = atMs + zone.offsetMs(atMs) === wallMs;
    return size === "hour" && !isReal ? "skipped" : sure(unexpected(atMs));
  };

  return (starts, reading) => {
    if (reading === "instant") return starts.map(asInstant);
    const twins = twinsOf(starts);
    return starts.map((start) => asLocal(start, twins));
  };
}
