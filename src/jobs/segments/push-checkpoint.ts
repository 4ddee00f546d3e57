import { z } from "zod";
import type { SegmentPushJobConfig } from "./settings.ts";
import { cursorInstant } from "../../load/inputs/cursor-values.ts";
import type { StoredCheckpoint } from "../../load/feeds/feed-commit.ts";
import { instantText } from "../../schemas/convert.ts";
import { readCursor } from "../read-cursor.ts";

/** Stream of a push job's only checkpoint. */
export const PUSH_STREAM = "segment";

/** How far the clocks of two machines may differ that run a job in turn. */
const MAX_SKEW_MS = 3_600_000;

const SEGMENT_ID = "must be the UUID of a segment";

/** What a push job remembers of its segment. */
export const pushCursor = z.object({
  segment_id: z
    .string(SEGMENT_ID)
    .regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/iu, SEGMENT_ID),
  /** When everything that should be a member was last added; null for never. */
  full_at: cursorInstant.nullable().default(null),
  /** When the pass began that adds everybody again and hasn't come to its end; null for none. */
  again_since: cursorInstant.nullable().optional(),
});

/** The same as a run reads it. Times only spare work: what is none counts as never. */
const storedCursor = pushCursor.extend({
  // As the service gave it when the segment was made.
  segment_id: z.string(SEGMENT_ID).min(1, SEGMENT_ID),
  full_at: pushCursor.shape.full_at.catch(null),
  again_since: pushCursor.shape.again_since.catch(null),
});

/** The same as the job goes by it. */
export interface PushedSegment {
  readonly segmentId: string;
  /** ISO 8601; null for never. */
  readonly fullAt: string | null;
  /** When the pass began that adds everybody again and hasn't come to its end, by the warehouse's clock, ISO 8601; null for none. */
  readonly againSince: string | null;
}

/** The segment that a push job fills; null before it was made. Throws a StopJobError for a checkpoint that can't be read. */
export function segmentOfPush(
  job: string,
  stored: readonly Pick<StoredCheckpoint, "stream" | "cursor">[],
): PushedSegment | null {
  const checkpoints = new Map(stored.map((found) => [found.stream, found]));
  // A push never forgets its segment: where everything is sent again, it goes to the same.
  const request = { fullRefresh: false };
  const cursor = readCursor({ checkpoints, request, job: { name: job } }, PUSH_STREAM, storedCursor);
  if (cursor === null) return null;
  const { segment_id: segmentId, full_at: fullAt, again_since: againSince = null } = cursor;
  return { segmentId: segmentId.toLowerCase(), fullAt, againSince: instantText(againSince) };
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
