import { z } from "zod";
import type { Config, JobConfig, JobOf } from "../../config/config.ts";
import type { Complaint } from "../../config/problems.ts";
import { choice, listOf, ratio, text } from "../../config/schema/settings.ts";
import { type JobDeclaration, jobSettings } from "../../config/schema/jobs.ts";
import { connectionName, jobName, searchName, sqlText, uuid } from "../../config/schema/values.ts";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import {
  cursorCount,
  cursorInstant,
  readCheckpoints,
  type StoredCheckpoint,
} from "../../load/write/commit.ts";
import { type FeedContext, isOver, readCursor } from "../feed.ts";
import { audienceJobOf } from "../search/audience-search.ts";
import { audienceCursor } from "../search/audience.ts";
import { streamOf } from "../search/search.ts";

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

export const segmentMembersSettings = jobSettings("segment_members", {
  segments,
});

export const deathSignalsSettings = jobSettings("death_signals", { segments });

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

export type SegmentMembersJobConfig = JobOf<typeof segmentMembersSettings>;

export type SegmentPushJobConfig = JobOf<typeof segmentPushSettings>;

export type DeathSignalsJobConfig = JobOf<typeof deathSignalsSettings>;

export interface KnownSegment {
  readonly id: string;
  /** Name in the configuration; null for none. */
  readonly name: string | null;
}

/** Error codes that affect only one segment; others end the job. */
const ABOUT_ONE_SEGMENT: ReadonlySet<string> = new Set([
  "segment_gone",
  "segment_unknown",
  "bad_checkpoint",
  "no_answer",
  "page_not_advancing",
  "request_refused",
  "unexpected_status",
]);

/** Maximum consecutive segments without an answer before the job ends. */
const MAX_UNANSWERED = 3;

/** Processes each distinct segment of a job. Continues after the failure of a segment; throws all failures at the end. */
export async function forEachSegment(
  context: FeedContext,
  segments: readonly SegmentConfig[],
  work: (segment: KnownSegment) => Promise<void>,
): Promise<void> {
  const problems: StopJobError[] = [];
  let decisive: StopJobError | null = null;
  const done = new Set<string>();
  let unanswered = 0;
  let isWaiting = false;
  for (const segment of segments) {
    let id: string | null = null;
    try {
      const known = await knownSegment(context, segment);
      isWaiting ||= known === null;
      if (known === null || done.has(known.id.toLowerCase())) continue;
      ({ id } = known);
      done.add(id.toLowerCase());
      await work(known);
      unanswered = 0;
    } catch (error) {
      if (context.signal.aborted) throw error;
      if (error instanceof LimitReachedError && decisive) {
        // A failure outranks a limit.
        throw new StopJobError(decisive.code, [...problems, error].map(({ message }) => message).join(" "));
      }
      if (!(error instanceof StopJobError)) throw error;
      const problem = about(id, error);
      problems.push(problem);
      const endsJob = !ABOUT_ONE_SEGMENT.has(error.code);
      if (endsJob) decisive = problem;
      else decisive ??= problem;
      unanswered = error.code === "no_answer" ? unanswered + 1 : 0;
      if (endsJob || unanswered >= MAX_UNANSWERED) break;
    }
  }
  if (!decisive) {
    if (!isWaiting) return;
    throw new LimitReachedError(
      "deadline",
      `${context.job.name}: an audience is not stored yet. The next run resumes.`,
    );
  }
  throw new StopJobError(decisive.code, problems.map(({ message }) => message).join(" "));
}

/** Adds the segment to the message of an error. */
function about(id: string | null, error: StopJobError): StopJobError {
  if (id === null || error.message.includes(id)) return error;
  return new StopJobError(error.code, `Segment ${id}: ${error.message}`, { cause: error });
}

/** Error for a segment that the service does not have. */
export function segmentGone(job: string, endpoint: string, id: string): StopJobError {
  return new StopJobError(
    "segment_gone",
    `${job}: ${endpoint}: the service has no segment ${id} (404): it was deleted, or belongs to another organization. ` +
      "Its stored members are kept. Remove it from the configuration, or correct its ID.",
  );
}

/**
 * Returns the ID of a segment; null if its push job has not created it yet. Throws a StopJobError if that job's checkpoint
 * is invalid.
 * @param checkpointsOf returns the checkpoints of a job.
 */
export function segmentIdOf(
  config: Pick<Config, "jobs">,
  segment: SegmentConfig,
  checkpointsOf: (job: string) => readonly Pick<StoredCheckpoint, "stream" | "cursor">[],
): string | null {
  if (segment.kind === "id") return segment.id;
  if (segment.kind === "search") return audienceOf(config, segment, checkpointsOf(segment.job)).id;
  const push = pushOf(config, segment.job);
  return readPushCheckpoint(push, checkpointsOf(push.name))?.segment_id ?? null;
}

/** Segment of an audience; its ID is null until its members are stored, because it exists once it is unlocked. */
function audienceOf(
  config: Pick<Config, "jobs">,
  { job: name, search }: Extract<SegmentConfig, { kind: "search" }>,
  checkpoints: readonly Pick<StoredCheckpoint, "stream" | "cursor">[],
): { readonly id: string | null; readonly isExpected: boolean } {
  const job = config.jobs.find((other) => other.name === name);
  const wanted = job ? audienceJobOf(job)?.searches[search] : undefined;
  if (!wanted) throw new Error(`${name} has no search ${search}`);
  const stored = checkpoints.find(({ stream }) => stream === streamOf(wanted.query))?.cursor;
  const cursor = audienceCursor.safeParse(stored).data;
  return {
    id: cursor?.stored_segment_id ?? null,
    isExpected: cursor !== undefined && wanted.unlock !== null,
  };
}

function pushOf(config: Pick<Config, "jobs">, name: string): SegmentPushJobConfig {
  const job = config.jobs.find((other) => other.name === name);
  const push = job ? pushJobOf(job) : null;
  if (!push) throw new Error(`${name} is not a segment_push job`);
  return push;
}

/** Reason and remedy for a missing segment, without a full stop. */
function notMadeYet(config: Pick<Config, "jobs">, segment: Exclude<SegmentConfig, { kind: "id" }>): string {
  const push = segment.job;
  if (segment.kind === "search") {
    return `${push} has not unlocked the audience ${segment.search} yet; set its \`unlock\` and run it first`;
  }
  return pushOf(config, push).enabled
    ? `${push} has not created its segment yet; run it first`
    : `${push} has not created its segment yet and is disabled; enable it and run it first`;
}

/** Like {@link segmentIdOf}, with stored checkpoints. */
async function storedIdOf(
  { config, db }: Pick<FeedContext, "config" | "db">,
  segment: SegmentConfig,
): Promise<string | null> {
  const stored = segment.kind === "id" ? [] : await readCheckpoints(db, segment.job);
  return segmentIdOf(config, segment, () => stored);
}

/** Returns a segment; null for an audience that a later run will store. */
async function knownSegment(context: FeedContext, segment: SegmentConfig): Promise<KnownSegment | null> {
  if (segment.kind === "id") return segment;
  const { config, retryWhileDown, db, job, progress, log } = context;
  const stored = await retryWhileDown(() => readCheckpoints(db, segment.job));
  const id = segmentIdOf(config, segment, () => stored);
  if (id !== null) {
    const name = segment.kind === "search" ? segment.search : pushOf(config, segment.job).segmentName;
    return { id, name: segment.name ?? name };
  }
  if (segment.kind === "search" && audienceOf(config, segment, stored).isExpected) {
    log.info({ job: job.name, search: segment.search }, "audience_not_stored");
    progress.note(job.name, `${segment.job} has not stored the audience ${segment.search} yet; skipped`);
    return null;
  }
  throw new StopJobError("segment_unknown", `${job.name}: ${notMadeYet(config, segment)}.`);
}

/** Streams of a job that reads segments: their IDs. */
export async function segmentStreams(
  { segments }: { readonly segments: readonly SegmentConfig[] },
  services: Pick<FeedContext, "config" | "db">,
): Promise<readonly string[]> {
  const ids = segments.map(async (segment) => (await storedIdOf(services, segment)) ?? []);
  return [...new Set((await Promise.all(ids)).flat())];
}

export const memberCursor = z.object({
  /** End of the last complete reading, by the service's clock; null for never. */
  swept_at: cursorInstant.nullable().default(null),
  /** Members listed in that reading but not stored because they were erased. */
  suppressed: cursorCount.default(0),
});

export type MemberCheckpoint = Readonly<z.output<typeof memberCursor>>;

/** Checkpoint before the first reading. */
export const neverSwept: MemberCheckpoint = memberCursor.parse({});

/** Parses a stored cursor. An invalid one counts as none, so that all pages are read. */
export function readMemberCheckpoint(cursor: unknown): MemberCheckpoint {
  return memberCursor.safeParse(cursor).data ?? neverSwept;
}

/** Maximum pages of a segment that every run reads completely. */
const SWEEP_ALWAYS_PAGES = 50;
/** Time after which a segment is read again completely. */
export const FULL_SWEEP_EVERY_MS = 7 * 86_400_000;

/** True if all pages must be read, regardless of the first ones. */
export function isSweepDue(
  { swept_at: sweptAt }: Pick<MemberCheckpoint, "swept_at">,
  { pages, atMs }: { readonly pages: number; readonly atMs: number },
): boolean {
  return pages <= SWEEP_ALWAYS_PAGES || isOver(sweptAt, FULL_SWEEP_EVERY_MS, atMs);
}

/** Stream of a push job's only checkpoint. */
export const PUSH_STREAM = "segment";
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
