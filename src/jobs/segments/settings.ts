import { z } from "zod";
import type { JobConfig, JobOf } from "../../config/config.ts";
import type { Complaint } from "../../config/problems.ts";
import { choice, listOf, ratio, text } from "../../config/schema/described.ts";
import { type JobDeclaration, jobSettings } from "../../config/schema/jobs.ts";
import { connectionName, duration, jobName, sqlText, uuid } from "../../config/schema/values.ts";

const eitherComplaint: Complaint = {
  message: "must have an id or a job, one of the two",
  hint: "{ id: <uuid> } or { job: NAME }",
};

/** A segment that a job reads: by id, or the one that a `segment_push` job fills. */
export type SegmentConfig =
  | {
      readonly kind: "id";
      /** Lower case. */
      readonly id: string;
      /** The user's name of it; null for none. */
      readonly name: string | null;
    }
  | { readonly kind: "job"; readonly job: string; readonly name: string | null };

const segment = z
  .strictObject({
    id: uuid().optional(),
    job: jobName({ jobType: "segment_push" }).optional(),
    name: text({ expects: "a name" }).optional(),
  })
  .check((context) => {
    const { id, job } = context.value;
    if ((id === undefined) !== (job === undefined)) return;
    context.issues.push({ code: "custom", input: context.value, params: { complaint: eitherComplaint } });
  })
  .transform(
    ({ id = "", job, name = null }): SegmentConfig =>
      job === undefined ? { kind: "id", id, name } : { kind: "job", job, name },
  );

/** Reason for a job without a checkpoint. */
export const NO_SEGMENT = "the job that makes its segment has not done so yet";

const segments = listOf(segment, "a list of segments, each `{ id: … }` or `{ job: … }`", 1);

/** Settings of `segment_members`. */
export const segmentMembersSettings = jobSettings("segment_members", {
  segments,
  full_sweep_every: duration().prefault("7d"),
});

/** Settings of `death_signals`. */
export const deathSignalsSettings = jobSettings("death_signals", { segments });

/** Settings of `segment_push`. */
export const segmentPushSettings = jobSettings("segment_push", {
  /** Name under which the segment is created; null only beside `segment_id`. */
  name: text({ expects: "the name of the segment" }).optional(),
  /** An existing segment; null to create one. */
  segment_id: uuid().optional(),
  description: text({ expects: "a description" }).optional(),
  sql: sqlText("a SELECT statement that gives service_pid"),
  connection: connectionName().optional(),
  mode: choice(["append", "mirror"]).default("append"),
  /** Largest part of the job's own members that `mirror` removes in a run without asking, 0 to 1. */
  max_remove_ratio: ratio().default(0.1),
  /** Rejected PIDs / PIDs sent, 0 to 1; null: no bound. */
  max_reject_ratio: ratio().optional(),
  /** Everything that should be a member is added again after this time. */
  full_sweep_every: duration().prefault("7d"),
}).transform(({ name: segmentName, ...rest }) => ({ ...rest, segmentName }));

/** Problems of a push beyond the form of each setting. */
export const segmentPushComplaints: NonNullable<JobDeclaration["complaints"]> = (job, { earlier }) => {
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
      message: `is also that of jobs.${same[0]}: the service makes no second segment of one name`,
      hint: "choose another name, or give one of the two a segment_id",
    },
  ];
};

/** The job if it is a `segment_push`. */
export function pushJobOf(job: JobConfig): SegmentPushJobConfig | null {
  return job.type === "segment_push" ? (job as SegmentPushJobConfig) : null; // its type says so
}

/** The job if it keeps the members of segments. */
export function membersJobOf(job: JobConfig): SegmentMembersJobConfig | null {
  return job.type === "segment_members" ? (job as SegmentMembersJobConfig) : null; // its type says so
}

/** A job that keeps the members of segments. */
export type SegmentMembersJobConfig = JobOf<typeof segmentMembersSettings>;
/** A job that makes a segment of a query's rows. */
export type SegmentPushJobConfig = JobOf<typeof segmentPushSettings>;
/** A job that keeps the death signals of members of segments. */
export type DeathSignalsJobConfig = JobOf<typeof deathSignalsSettings>;
