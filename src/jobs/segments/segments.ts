import { z } from "zod";
import type { Config } from "../../config/config.ts";
import type { SettingProblem } from "../../config/problems.ts";
import { listOf, text } from "../../config/schema/settings.ts";
import { jobName, searchName, uuid } from "../../config/schema/values.ts";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import { readCheckpoints, type StoredCheckpoint } from "../../load/write/commit.ts";
import { collectErrors, type FeedContext, goneError } from "../feed.ts";
import { audienceCursor } from "../search/audience-members.ts";
import { audienceJobOf } from "../search/audience-search.ts";
import { streamOf } from "../search/search.ts";
import { pushJobOf, readPushCheckpoint, type SegmentPushJobConfig } from "./push-settings.ts";

const eitherProblem: SettingProblem = {
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
    context.issues.push({ code: "custom", input: context.value, params: { problem: eitherProblem } });
  })
  .transform(({ id = "", job, search, name = null }): SegmentConfig => {
    if (job === undefined) return { kind: "id", id, name };
    return search === undefined ? { kind: "job", job, name } : { kind: "search", job, search, name };
  });

export const segmentsSetting = listOf(
  segment,
  "a list of segments, each `{ id: … }`, `{ job: … }` or `{ job: …, search: … }`",
  1,
);

export interface KnownSegment {
  readonly id: string;
  /** Name in the configuration; null for none. */
  readonly name: string | null;
}

/** Maximum consecutive segments without an answer before the job ends. */
const MAX_UNANSWERED = 3;

/** Processes each distinct segment of a job. Continues after the failure of a segment; throws all failures at the end. */
export async function forEachSegment(
  context: FeedContext,
  segments: readonly SegmentConfig[],
  work: (segment: KnownSegment) => Promise<void>,
): Promise<void> {
  const errors = collectErrors();
  const done = new Set<string>();
  let unanswered = 0;
  for (const segment of segments) {
    let id: string | null = null;
    try {
      const known = await knownSegment(context, segment);
      if (done.has(known.id.toLowerCase())) continue;
      ({ id } = known);
      done.add(id.toLowerCase());
      await work(known);
      unanswered = 0;
    } catch (error) {
      errors.keep(error instanceof StopJobError ? withSegment(id, error) : error);
      unanswered = error instanceof StopJobError && error.code === "no_answer" ? unanswered + 1 : 0;
      const isLimited = error instanceof LimitReachedError && error.code !== "deadline";
      if (isLimited || unanswered >= MAX_UNANSWERED) break;
    }
  }
  errors.throwIfAny();
}

function withSegment(id: string | null, error: StopJobError): StopJobError {
  if (id === null || error.message.includes(id)) return error;
  return new StopJobError(error.code, `Segment ${id}: ${error.message}`, { cause: error });
}

/** @param next what was kept, and the next step */
export function segmentGone(
  job: string,
  endpoint: string,
  id: string,
  next = "Its stored members are kept. Remove it from the configuration, or correct its ID.",
): StopJobError {
  return goneError("segment_gone", `${job}: ${endpoint}`, `segment ${id}`, next);
}

type Stored = readonly Pick<StoredCheckpoint, "stream" | "cursor">[];

/**
 * Returns the ID of a segment; null before it exists: one of a push job once that created it, one of an audience once its members are
 * stored. Throws a StopJobError if the checkpoint of the push job is invalid.
 * @param checkpointsOf returns the checkpoints of a job
 */
export function segmentIdOf(
  config: Pick<Config, "jobs">,
  segment: SegmentConfig,
  checkpointsOf: (job: string) => Stored,
): string | null {
  if (segment.kind === "id") return segment.id;
  const stored = checkpointsOf(segment.job);
  if (segment.kind === "search") return audienceOf(config, segment, stored).cursor?.stored_segment_id ?? null;
  return readPushCheckpoint(pushOf(config, segment.job), stored)?.segment_id ?? null;
}

function audienceOf(
  config: Pick<Config, "jobs">,
  { job: name, search }: Extract<SegmentConfig, { kind: "search" }>,
  checkpoints: Stored,
) {
  const job = config.jobs.find((other) => other.name === name);
  const wanted = job ? audienceJobOf(job)?.searches[search] : undefined;
  if (!wanted) throw new Error(`${name} has no search ${search}`);
  const stored = checkpoints.find(({ stream }) => stream === streamOf(wanted.query))?.cursor;
  return { cursor: audienceCursor.safeParse(stored).data, unlock: wanted.unlock };
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

/** Returns a segment. Throws a LimitReachedError for an audience that a later run will store. */
async function knownSegment(context: FeedContext, segment: SegmentConfig): Promise<KnownSegment> {
  if (segment.kind === "id") return segment;
  const { config, db, job, progress, log } = context;
  const stored = await readCheckpoints(db, segment.job);
  const id = segmentIdOf(config, segment, () => stored);
  if (id !== null) {
    const name = segment.kind === "search" ? segment.search : pushOf(config, segment.job).segmentName;
    return { id, name: segment.name ?? name };
  }
  if (segment.kind === "search") {
    const { cursor, unlock } = audienceOf(config, segment, stored);
    if (cursor && unlock !== null) {
      log.info({ job: job.name, search: segment.search }, "audience_not_stored");
      progress.note(job.name, `${segment.job} has not stored the audience ${segment.search} yet; skipped`);
      throw new LimitReachedError(
        "deadline",
        `${job.name}: an audience is not stored yet. The next run resumes.`,
      );
    }
  }
  throw new StopJobError("segment_unknown", `${job.name}: ${notMadeYet(config, segment)}.`);
}

/** Checkpoints of a job that reads segments: one stream per segment. */
export const segmentStreams = {
  async streams(
    { segments }: { readonly segments: readonly SegmentConfig[] },
    { config, db }: Pick<FeedContext, "config" | "db">,
  ): Promise<readonly string[]> {
    const ids = segments.map(async (segment) => {
      const stored = segment.kind === "id" ? [] : await readCheckpoints(db, segment.job);
      return segmentIdOf(config, segment, () => stored) ?? [];
    });
    return [...new Set((await Promise.all(ids)).flat())];
  },
  noStream: "its segment has not been created yet",
};
