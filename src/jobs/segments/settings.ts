import { z } from "zod";
import type { JobConfig, JobOf } from "../../config/config.ts";
import type { Complaint } from "../../config/problems.ts";
import { choice, listOf, ratio, text } from "../../config/schema/described.ts";
import { type JobDeclaration, jobSettings } from "../../config/schema/jobs.ts";
import { connectionName, duration, jobName, searchName, sqlText, uuid } from "../../config/schema/values.ts";

const eitherComplaint: Complaint = {
  message: "must have either an id or a job",
  hint: "{ id: <uuid> }, { job: NAME } or { job: NAME, search: NAME }",
};

/** Segment that a job reads: by ID, the one filled by a `segment_push` job, or that of an audience. */
export type SegmentConfig =
  | {
      readonly kind: "id";
      /** Lower case. */
      readonly id: string;
      /** Name in the configuration; null for none. */
      readonly name: string | null;
    }
  | { readonly kind: "job"; readonly job: string; readonly name: string | null }
  | {
      readonly kind: "search";
      readonly job: string;
      readonly search: string;
      readonly name: string | null;
    };

const segment = z
  .strictObject({
    id: uuid().optional(),
    job: jobName({ jobTypes: ["segment_push", "audience_search"] }).optional(),
    search: searchName().optional(),
    name: text({ expects: "a name" }).optional(),
  })
  .check((context) => {
    const { id, job } = context.value;
    if ((id === undefined) !== (job === undefined)) return;
    context.issues.push({ code: "custom", input: context.value, params: { complaint: eitherComplaint } });
  })
  .transform(({ id = "", job, search, name = null }): SegmentConfig => {
    if (job === undefined) return { kind: "id", id, name };
    return search === undefined ? { kind: "job", job, name } : { kind: "search", job, search, name };
  });

/** Reason for a job without a checkpoint. */
export const NO_SEGMENT = "its segment has not been created yet";

const segments = listOf(
  segment,
  "a list of segments, each `{ id: … }`, `{ job: … }` or `{ job: …, search: … }`",
  1,
);

/** Settings of `segment_members`. */
export const segmentMembersSettings = jobSettings("segment_members", {
  segments,
  full_sweep_every: duration().prefault("7d"),
});

/** Settings of `death_signals`. */
export const deathSignalsSettings = jobSettings("death_signals", { segments });

/** Settings of `segment_push`. */
export const segmentPushSettings = jobSettings("segment_push", {
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
  /** Maximum rejected PIDs / PIDs sent, 0 to 1; null: no limit. */
  max_reject_ratio: ratio().optional(),
  /** Time after which the segment is read again completely. */
  full_sweep_every: duration().prefault("7d"),
}).transform(({ name: segmentName, ...rest }) => ({ ...rest, segmentName }));

/** Problems of a push that involve several settings. */
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
      message: `is also the name of jobs.${same[0]}: the service allows only one segment per name`,
      hint: "choose another name, or give one of the two a segment_id",
    },
  ];
};

/** Narrows a job to `segment_push`; null for other types. */
export function pushJobOf(job: JobConfig): SegmentPushJobConfig | null {
  return job.type === "segment_push" ? (job as SegmentPushJobConfig) : null; // `type` identifies the settings
}

/** Narrows a job to `segment_members`; null for other types. */
export function membersJobOf(job: JobConfig): SegmentMembersJobConfig | null {
  return job.type === "segment_members" ? (job as SegmentMembersJobConfig) : null; // `type` identifies the settings
}

/** Job that reads the members of segments. */
export type SegmentMembersJobConfig = JobOf<typeof segmentMembersSettings>;
/** Job that fills a segment from a query. */
export type SegmentPushJobConfig = JobOf<typeof segmentPushSettings>;
/** Job that reads the death signals of segment members. */
export type DeathSignalsJobConfig = JobOf<typeof deathSignalsSettings>;
