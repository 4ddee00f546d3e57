import type { Config, JobConfig } from "../../config/config.ts";
import { StopJobError } from "../../errors.ts";
import type { StoredSegment } from "../../load/feeds/segments.ts";
import type { CheckpointReport } from "./checkpoints.ts";
import { segmentIdOf } from "../segments/feed-segments.ts";
import { membersJobOf, type SegmentConfig } from "../segments/settings.ts";

/** One segment that a job keeps the members of, in the document of `status --json`. */
export interface SegmentReport {
  readonly segment_id: string;
  readonly name: string | null;
  /** When its members were last looked at; null, like the figures, where nobody has. */
  readonly observed_at: string | null;
  readonly current_size: number | null;
  readonly known_members: number | null;
  /** Members whom that look didn't show, and who aren't proven to be gone: the next run tries again. */
  readonly removals_pending: number | null;
}

/** What is known of the segments that a job keeps the members of; empty for other jobs. */
export function segmentReports(
  config: Pick<Config, "jobs">,
  job: JobConfig,
  known: {
    readonly segments: readonly StoredSegment[];
    /** Of all jobs. */
    readonly checkpoints: readonly CheckpointReport[];
  },
): readonly SegmentReport[] {
  return (membersJobOf(job)?.segments ?? []).flatMap((segment) => {
    const id = readableId(config, segment, known.checkpoints);
    const stored = known.segments.find(({ segmentId }) => segmentId === id);
    if (!stored) return [];
    return [
      {
        segment_id: stored.segmentId,
        name: segment.name ?? stored.name,
        observed_at: stored.observedAt,
        current_size: stored.currentSize,
        known_members: stored.knownMembers,
        removals_pending: stored.removalsPending,
      },
    ];
  });
}

/** The id of a segment; null also where the checkpoint of the job that makes it can't be read: its own run tells of that. */
function readableId(
  config: Pick<Config, "jobs">,
  segment: SegmentConfig,
  checkpoints: readonly CheckpointReport[],
): string | null {
  try {
    return segmentIdOf(config, segment, (push) => {
      const stored = checkpoints.find((report) => report.job === push);
      return stored?.checkpoints ?? [];
    });
  } catch (error) {
    if (error instanceof StopJobError) return null;
    throw error;
  }
}
