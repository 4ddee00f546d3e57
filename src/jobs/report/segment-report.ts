import type { Config, JobConfig } from "../../config/config.ts";
import { StopJobError } from "../../errors.ts";
import type { StoredSegment } from "../../load/feeds/members.ts";
import type { PushedMembers } from "../../load/feeds/push.ts";
import type { CheckpointReport } from "./checkpoints.ts";
import { segmentIdOf } from "../segments/feed-segments.ts";
import { membersJobOf, pushJobOf, type SegmentConfig } from "../segments/settings.ts";

/** One segment of a job, in `status --json`. */
export interface SegmentReport {
  readonly segment_id: string;
  readonly name: string | null;
  /** Time of the last reading of its members; null if never read, like the counts. */
  readonly observed_at: string | null;
  readonly current_size: number | null;
  readonly known_members: number | null;
  /** Members not listed in that reading, whose removal is not confirmed; the next run checks again. */
  readonly removals_pending: number | null;
  /** Members that this `segment_push` job added; null for other jobs. */
  readonly members_own: number | null;
  /** Members that this job may have added, which it never removes; null for other jobs. */
  readonly members_in_doubt: number | null;
}

/** Stored state for the reports. */
interface KnownSegments {
  readonly segments: readonly StoredSegment[];
  /** Null: not counted. */
  readonly pushed: readonly PushedMembers[] | null;
  /** Checkpoints of all jobs. */
  readonly checkpoints: readonly CheckpointReport[];
}

/** Reports the segments that a job reads or fills; empty for other jobs. */
export function segmentReports(
  config: Pick<Config, "jobs">,
  job: JobConfig,
  known: KnownSegments,
): readonly SegmentReport[] {
  const push = pushJobOf(job);
  const segments: readonly SegmentConfig[] = push
    ? [{ kind: "job", job: job.name, name: push.segmentName }]
    : (membersJobOf(job)?.segments ?? []);
  return segments.flatMap((segment) => {
    const id = readableId(config, segment, known.checkpoints);
    const stored = known.segments.find(({ segmentId }) => segmentId === id);
    if (!stored) return [];
    const pushed = known.pushed?.find((found) => found.job === job.name && found.segmentId === id);
    return [
      {
        segment_id: stored.segmentId,
        name: segment.name ?? stored.name,
        observed_at: stored.observedAt,
        current_size: stored.currentSize,
        known_members: stored.knownMembers,
        removals_pending: push ? null : stored.removalsPending,
        members_own: push && known.pushed ? (pushed?.own ?? 0) : null,
        members_in_doubt: push && known.pushed ? (pushed?.inDoubt ?? 0) : null,
      },
    ];
  });
}

/** Returns a segment's ID; null if unknown or if the checkpoint of its push job is invalid, which that job reports. */
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
