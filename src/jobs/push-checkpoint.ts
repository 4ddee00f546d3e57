import type { SegmentPushJobConfig } from "../config/config.ts";
import type { StoredCheckpoint } from "../load/feed-warehouse.ts";
import { instantText } from "../schemas/convert.ts";

/** Stream of a push job's only checkpoint. */
export const PUSH_STREAM = "segment";

/** How far the clocks of two machines may differ that run a job in turn. */
const MAX_SKEW_MS = 3_600_000;

/** What a push job remembers of its segment. */
export interface PushedSegment {
  readonly segmentId: string;
  /** When everything that should be a member was last added, ISO 8601; null for never. */
  readonly fullAt: string | null;
  /** When the pass began that adds everybody again and hasn't come to its end, by the warehouse's clock, ISO 8601; null for none. */
  readonly againSince: string | null;
}

/** Reads the checkpoint of a push job; null before the segment was made. */
export function segmentOfPush(
  stored: readonly Pick<StoredCheckpoint, "stream" | "cursor">[],
): PushedSegment | null {
  const cursor = stored.find(({ stream }) => stream === PUSH_STREAM)?.cursor;
  if (typeof cursor !== "object" || cursor === null || !("segment_id" in cursor)) return null;
  if (typeof cursor.segment_id !== "string") return null;
  const fullAt = "full_at" in cursor && typeof cursor.full_at === "string" ? cursor.full_at : null;
  const againSince = "again_since" in cursor ? instantText(cursor.again_since) : null;
  return { segmentId: cursor.segment_id.toLowerCase(), fullAt, againSince };
}

/** The checkpoint of a push job. */
export function cursorOfPush({ segmentId, fullAt, againSince }: PushedSegment): object {
  return {
    segment_id: segmentId,
    full_at: fullAt,
    ...(againSince === null ? {} : { again_since: againSince }),
  };
}

/** The pass in which everybody is added again: since when, `now` for one that begins; null while none is due. */
export function againOf(
  known: PushedSegment | null,
  { fullSweepEveryMs }: Pick<SegmentPushJobConfig, "fullSweepEveryMs">,
  nowMs: number,
): string | null {
  if (known !== null && known.againSince !== null) return known.againSince;
  const ageMs = nowMs - Date.parse(known?.fullAt ?? "never");
  // What is no time, or still to come, is no reason to wait.
  return ageMs >= -MAX_SKEW_MS && ageMs < fullSweepEveryMs ? null : "now";
}
