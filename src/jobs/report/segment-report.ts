import type { Config, JobConfig } from "../../config/config.ts";
import { StopJobError } from "../../errors.ts";
import type { PushedMembers, StoredSegment } from "../../load/feeds/stored-segments.ts";
import type { CheckpointReport } from "./checkpoints.ts";
import { segmentIdOf } from "../segments/feed-segments.ts";
import { membersJobOf, pushJobOf, type SegmentConfig } from "../segments/settings.ts";

/** One segment of a job, in the document of `status --json`. */
export interface SegmentReport {
  readonly segment_id: string;
  readonly name: string | null;
  /** Time of the last look at its members; null, like the figures, for never. */
  readonly observed_at: string | null;
  readonly current_size: number | null;
  readonly known_members: number | null;
  /** Members not listed by that look whose removal is not proven: the next run tries again. */
  readonly removals_pending: number | null;
  /** Members that this `segment_push` job added; null for other jobs. */
  readonly members_own: number | null;
  /** Members that this job may have added, which it never removes; null for other jobs. */
  readonly members_in_doubt: number | null;
}

/** Stored state that the reports are made of. */
export interface KnownSegments {
  readonly segments: readonly StoredSegment[];
  readonly pushed: readonly PushedMembers[];
  /** Of all jobs. */
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
    const pushed = known.pushed.find((found) => found.job === job.name && found.segmentId === id);
    return [
      {
        segment_id: stored.segmentId,
        name: segment.name ?? stored.name,
        observed_at: stored.observedAt,
        current_size: stored.currentSize,
        known_members: stored.knownMembers,
        removals_pending: push ? null : stored.removalsPending,
        members_own: push ? (pushed?.own ?? 0) : null,
        members_in_doubt: push ? (pushed?.inDoubt ?? 0) : null,
      },
    ];
  });
}

/** Returns the id of a segment; null also if the checkpoint of its push job can't be read, which that job reports. */
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
