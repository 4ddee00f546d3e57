import { z } from "zod";
import { cursorCount, cursorInstant } from "../../load/inputs/cursor-values.ts";
import type { StoredCheckpoint } from "../../load/write/checkpoints.ts";
import { readCursor } from "../read-source.ts";
import type { SegmentPushJobConfig } from "./settings.ts";

/** Stream of a push job's only checkpoint. */
export const PUSH_STREAM = "segment";

const SEGMENT_ID = "must be the UUID of a segment";

/** Checkpoint of a push job. */
export const pushCursor = z.object({
  segment_id: z
    .string(SEGMENT_ID)
    .regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/iu, SEGMENT_ID),
  /** Configured name when the segment was filled, null for none; missing if the ID was set by hand. */
  name: z.string("must be a name").nullable().optional(),
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

type Stored = readonly Pick<StoredCheckpoint, "stream" | "cursor">[];
type Target = Pick<SegmentPushJobConfig, "name" | "segmentId" | "segmentName">;

/** Returns the checkpoint of the segment that a push job filled last. Throws a StopJobError if it is invalid. */
function readLast(job: Target, stored: Stored): PushCheckpoint | null {
  const checkpoints = new Map(stored.map((found) => [found.stream, found]));
  // The segment is kept even with --full-refresh.
  const cursor = readCursor({ checkpoints, request: { fullRefresh: false }, job }, PUSH_STREAM, storedCursor);
  return cursor && { ...cursor, segment_id: cursor.segment_id.toLowerCase() };
}

/** Returns the checkpoint of a push job's segment; null before it is created. A changed name is another segment. */
export function readPushCheckpoint(job: Target, stored: Stored): PushCheckpoint | null {
  const last = readLast(job, stored);
  if (job.segmentId !== null) {
    const isSame = last?.segment_id === job.segmentId;
    return isSame ? last : { segment_id: job.segmentId, read_at: null, size: null };
  }
  return last?.name === undefined || last.name === job.segmentName ? last : null;
}

/** Reports that the next run leaves the segment filled so far for another one; empty otherwise. */
export function describeRename(job: Target, stored: Stored): readonly string[] {
  const last = readLast(job, stored);
  if (last === null || readPushCheckpoint(job, stored) !== null) return [];
  const lastName = last.name ? ` ("${last.name}")` : "";
  return [
    `another segment is created under the name "${job.segmentName}"; ${last.segment_id}${lastName}, which it filled so far, stays as it is`,
  ];
}
