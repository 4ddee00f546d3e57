import type { SegmentConfig } from "../config/config.ts";
import { StopJobError } from "../errors.ts";
import { segmentOfPush } from "./push-checkpoint.ts";
import type { FeedContext } from "./feed-type.ts";

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

async function knownSegment(context: FeedContext, segment: SegmentConfig): Promise<KnownSegment> {
  if (segment.kind === "id") return segment;
  const push = context.config.jobs.find(({ name }) => name === segment.job);
  if (push?.type !== "segment_push") throw new Error(`${segment.job} has passed as a segment_push job`);
  const id =
    push.segmentId ?? segmentOfPush(await context.warehouse.readCheckpoints(push.name))?.segmentId ?? null;
  if (id !== null) return { id, name: segment.name ?? push.segmentName };
  throw new SegmentProblem(
    "segment_unknown",
    `${context.job.name}: ${segment.job} has not made its segment yet; run it first.`,
  );
}
