import { z } from "zod";
import { cursorCount, cursorInstant } from "../../load/inputs/cursor-values.ts";
import type { StoredCheckpoint } from "../../load/write/checkpoints.ts";
import { readCursor } from "../read-cursor.ts";

/** Stream of a push job's only checkpoint. */
export const PUSH_STREAM = "segment";

const SEGMENT_ID = "must be the UUID of a segment";

/** Checkpoint of a push job. */
export const pushCursor = z.object({
  segment_id: z
    .string(SEGMENT_ID)
    .regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/iu, SEGMENT_ID),
  /** Time of the last complete reading of the segment, by the service's clock; null for never. */
  read_at: cursorInstant.nullable().default(null),
  /** Members after the last run; null if unknown. */
  size: cursorCount.nullable().default(null),
});

/** Stored form, with fewer checks. Time and size only save calls, so invalid values count as none. */
const storedCursor = pushCursor.extend({
  // As returned by the service when the segment was created.
  segment_id: z.string(SEGMENT_ID).min(1, SEGMENT_ID),
  read_at: pushCursor.shape.read_at.catch(null),
  size: pushCursor.shape.size.catch(null),
});

/** Parsed {@link pushCursor}. */
export type PushCheckpoint = Readonly<z.output<typeof pushCursor>>;

/**
 * Returns the checkpoint of a push job; null before its segment is created. Throws a StopJobError if it is invalid.
 */
export function readPushCheckpoint(
  job: string,
  stored: readonly Pick<StoredCheckpoint, "stream" | "cursor">[],
): PushCheckpoint | null {
  const checkpoints = new Map(stored.map((found) => [found.stream, found]));
  // The segment is kept even with --full-refresh.
  const request = { fullRefresh: false };
  const cursor = readCursor({ checkpoints, request, job: { name: job } }, PUSH_STREAM, storedCursor);
  return cursor && { ...cursor, segment_id: cursor.segment_id.toLowerCase() };
}
