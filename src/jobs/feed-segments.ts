import type { Config, SegmentConfig, SegmentPushJobConfig } from "../config/config.ts";
import { StopJobError } from "../errors.ts";
import type { StoredCheckpoint } from "../load/feed-warehouse.ts";
import { segmentOfPush } from "./push-checkpoint.ts";
import type { FeedContext, ForecastContext } from "./feed-type.ts";

/** A segment of a job, its id known. */
export interface KnownSegment {
  readonly id: string;
  /** What the configuration calls it; null for nothing. */
  readonly name: string | null;
}

/**
 * Does something with each segment of a job. What hinders one doesn't hinder the others; in the end it is thrown, all of it.
 * @param work throws a StopJobError about its own segment alone.
 */
export async function forEachSegment(
  context: FeedContext,
  segments: readonly SegmentConfig[],
  work: (segment: KnownSegment) => Promise<void>,
): Promise<void> {
  const problems: StopJobError[] = [];
  for (const segment of segments) {
    try {
      await work(await knownSegment(context, segment));
    } catch (error) {
      if (!(error instanceof SegmentProblem)) throw error;
      problems.push(error);
    }
  }
  const [first] = problems;
  if (!first) return;
  throw new StopJobError(first.code, problems.map(({ message }) => message).join(" "));
}

/** Something is wrong with one segment; others may be read. */
class SegmentProblem extends StopJobError {}

/** A segment that the service doesn't know (any more). */
export function segmentGone(job: string, endpoint: string, id: string): StopJobError {
  return new SegmentProblem(
    "segment_gone",
    `${job}: ${endpoint}: the service knows no segment ${id} (404): it was deleted, or belongs to another organization. ` +
      "What is known of it stays as it is; nobody was marked as removed. Take it out of the configuration, or correct its id.",
  );
}

/**
 * The id of a segment; null for one that the job which fills it has not made yet.
 * @param checkpointsOf those of a job.
 */
export function segmentIdOf(
  config: Pick<Config, "jobs">,
  segment: SegmentConfig,
  checkpointsOf: (job: string) => readonly Pick<StoredCheckpoint, "stream" | "cursor">[],
): string | null {
  if (segment.kind === "id") return segment.id;
  return (
    pushOf(config, segment.job).segmentId ?? segmentOfPush(checkpointsOf(segment.job))?.segmentId ?? null
  );
}

function pushOf(config: Pick<Config, "jobs">, name: string): SegmentPushJobConfig {
  const push = config.jobs.find((job) => job.name === name);
  if (push?.type !== "segment_push") throw new Error(`${name} has passed as a segment_push job`);
  return push;
}

async function knownSegment(context: FeedContext, segment: SegmentConfig): Promise<KnownSegment> {
  if (segment.kind === "id") return segment;
  const stored = await context.warehouse.readCheckpoints(segment.job);
  const id = segmentIdOf(context.config, segment, () => stored);
  if (id !== null) return { id, name: segment.name ?? pushOf(context.config, segment.job).segmentName };
  throw new SegmentProblem(
    "segment_unknown",
    `${context.job.name}: ${segment.job} has not made its segment yet; run it first.`,
  );
}

/** A segment of a job, as far as a forecast knows it. */
export interface ForeseenSegment {
  /** Null for one that a job before it in the same plan will make. */
  readonly id: string | null;
  readonly name: string;
  /** Members that it will have then, where a job before it changes it; else null. */
  readonly sizeToCome: number | null;
}

/** The segments that a run could look at, and what is to be said of the others. */
export async function foreseeSegments(
  { config, warehouse, sizesToCome }: ForecastContext,
  segments: readonly SegmentConfig[],
): Promise<{ readonly segments: readonly ForeseenSegment[]; readonly remarks: readonly string[] }> {
  const found: ForeseenSegment[] = [];
  const remarks: string[] = [];
  for (const segment of segments) {
    const stored = segment.kind === "id" ? [] : await warehouse.readCheckpoints(segment.job);
    const id = segmentIdOf(config, segment, () => stored);
    const sizeToCome = segment.kind === "id" ? null : (sizesToCome.get(segment.job) ?? null);
    if (segment.kind === "job" && id === null && sizeToCome === null) {
      remarks.push(`${segment.job} has not made its segment yet; run it first`);
    } else {
      const name = segment.name ?? (segment.kind === "id" ? segment.id : `the segment of ${segment.job}`);
      found.push({ id, name, sizeToCome });
    }
  }
  return { segments: found, remarks };
}
