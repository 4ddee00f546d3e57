import { readCheckpoints } from "../../load/write/checkpoints.ts";
import type { Config } from "../../config/config.ts";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import type { StoredCheckpoint } from "../../load/write/checkpoints.ts";
import type { FeedContext } from "../feed-type.ts";
import { readPushCheckpoint } from "./push-checkpoint.ts";
import { audienceCursor } from "../search/audience-cursor.ts";
import { audienceJobOf } from "../search/audience-search.ts";
import { streamOf } from "../search/settings.ts";
import { pushJobOf, type SegmentConfig, type SegmentPushJobConfig } from "./settings.ts";

/** Segment with a known ID. */
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
  const { config, outage, db, job, progress, log } = context;
  const stored = await outage.outlast(() => readCheckpoints(db, segment.job));
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
