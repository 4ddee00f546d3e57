import type { SegmentPushJobConfig } from "../config/config.ts";
import type { StoredCheckpoint } from "../load/feed-warehouse.ts";

/** Stream of a push job's only checkpoint. */
export const PUSH_STREAM = "segment";

/** What a push job remembers of its segment. */
export interface PushedSegment {
  readonly segmentId: string;
  /** When everything that should be a member was last added, ISO 8601; null for never. */
  readonly fullAt: string | null;
}

/** Reads the checkpoint of a push job; null before the segment was made. */
export function segmentOfPush(
  stored: readonly Pick<StoredCheckpoint, "stream" | "cursor">[],
): PushedSegment | null {
  const cursor = stored.find(({ stream }) => stream === PUSH_STREAM)?.cursor;
  if (typeof cursor !== "object" || cursor === null || !("segment_id" in cursor)) return null;
  if (typeof cursor.segment_id !== "string") return null;
  const fullAt = "full_at" in cursor && typeof cursor.full_at === "string" ? cursor.full_at : null;
  return { segmentId: cursor.segment_id.toLowerCase(), fullAt };
}

/** When everybody was last added to a segment; null for never. */
export function fullAtOf(known: PushedSegment | null, segmentId: string): string | null {
  return known?.segmentId === segmentId ? known.fullAt : null;
}

/** Whether everybody has to be added again, also who is known to be a member. */
export function isFullDue(
  fullAt: string | null,
  { fullSweepEveryMs }: Pick<SegmentPushJobConfig, "fullSweepEveryMs">,
  nowMs: number,
): boolean {
  return fullAt === null || nowMs - Date.parse(fullAt) >= fullSweepEveryMs;
}
