import { z } from "zod";
import type { JobConfig, JobOf } from "../../config/config.ts";
import { type JobDeclaration, jobSettings } from "../../config/schema/jobs.ts";
import { choice, ratio, text } from "../../config/schema/settings.ts";
import { connectionName, sqlText, uuid } from "../../config/schema/values.ts";
import { cursorCount, cursorInstant, type StoredCheckpoint } from "../../load/write/commit.ts";
import { readCursor } from "../feed.ts";

export const pushSettings = jobSettings("segment_push", {
  /** Name of the segment to create; optional with `segment_id`. */
  name: text({ expects: "the name of the segment" }).optional(),
  /** Existing segment; null to create one. */
  segment_id: uuid().optional(),
  description: text({ expects: "a description" }).optional(),
  sql: sqlText("a SELECT statement that returns service_pid"),
  connection: connectionName().optional(),
  mode: choice(["append", "mirror"]).default("append"),
  /** Maximum share (0 to 1) of the job's own members that `mirror` removes per run without asking. */
  max_remove_ratio: ratio().default(0.1),
}).transform(({ name: segmentName, ...rest }) => ({ ...rest, segmentName }));

export type SegmentPushJobConfig = JobOf<typeof pushSettings>;

export function pushJobOf(job: JobConfig): SegmentPushJobConfig | null {
  return job.type === "segment_push" ? (job as SegmentPushJobConfig) : null; // `type` identifies the settings
}

export const findProblems: NonNullable<JobDeclaration["findProblems"]> = (job, { earlier }) => {
  const { name, segment_id: segmentId } = job;
  if (segmentId !== undefined) return [];
  if (name === undefined) {
    return [{ path: ["name"], message: "is missing", hint: "name the segment, or give its segment_id" }];
  }
  const same = [...earlier].find(([, other]) => other["name"] === name && other["segment_id"] === undefined);
  if (!same || job["enabled"] === false) return [];
  return [
    {
      path: ["name"],
      message: `is also the name of jobs.${same[0]}: the service allows only one segment per name`,
      hint: "choose another name, or give one of the two a segment_id",
    },
  ];
};

export const STREAM = "segment";
const SEGMENT_ID = "must be the UUID of a segment";

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

export type PushCheckpoint = Readonly<z.output<typeof pushCursor>>;
type Stored = readonly Pick<StoredCheckpoint, "stream" | "cursor">[];
type Target = Pick<SegmentPushJobConfig, "name" | "segmentId" | "segmentName">;

/** Returns the checkpoint of the segment that a push job filled last. Throws a StopJobError if it is invalid. */
function readLast(job: Target, stored: Stored): PushCheckpoint | null {
  const checkpoints = new Map(stored.map((found) => [found.stream, found]));
  const cursor = readCursor(checkpoints, job, STREAM, storedCursor);
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

/** Returns the segment that a push job filled last and has left for another one; null for none. */
export function leftSegment(job: Target, stored: Stored): string | null {
  const last = readLast(job, stored)?.segment_id ?? null;
  return last === readPushCheckpoint(job, stored)?.segment_id ? null : last;
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
