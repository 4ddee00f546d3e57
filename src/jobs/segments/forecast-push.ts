import { isMigrated } from "../../load/db/setup.ts";
import { planPush } from "../../load/feeds/plan-push.ts";
import { readSegments } from "../../load/feeds/stored-segments.ts";
import type { SegmentPushJobConfig } from "../../config/config.ts";
import type { PlannedPush, PushCounts } from "../../load/feeds/push.ts";
import { countText } from "../lookup/estimate.ts";
import type { FeedForecast, ForecastContext } from "../feed-type.ts";
import { againOf, segmentOfPush } from "./push-checkpoint.ts";
import { pushSourceOf } from "./push-source.ts";
import { sourcesOf } from "../verify-inputs.ts";

/** PIDs of one call (section 8 advises 1,000 to 10,000). */
export const BATCH_PIDS = 10_000;

/** Whether more would be removed than the user lets go without a word. */
export function removesTooMany(
  { maxRemoveRatio }: Pick<SegmentPushJobConfig, "maxRemoveRatio">,
  { toRemove, own }: Pick<PushCounts, "toRemove" | "own">,
): boolean {
  return toRemove > maxRemoveRatio * own;
}

/** Counts what the query gives against what is known of the segment. */
export async function forecastPush(context: ForecastContext<SegmentPushJobConfig>): Promise<FeedForecast> {
  const { config, job, db, clock, checkpoints } = context;
  const stored = segmentOfPush(job.name, [...checkpoints.values()]);
  const segmentId = job.segmentId ?? stored?.segmentId ?? null;
  // One that makes the segment, one that looks at it.
  const firstCalls = segmentId === null ? 2 : 1;
  const isOverOurTables = sourcesOf(config, [job]).some((source) => source.isOverOurTables);
  if (isOverOurTables && !(await isMigrated(db))) {
    return {
      calls: firstCalls,
      toSend: 0,
      remarks: ["its query reads tables that the first run makes, so what it gives isn't known yet"],
    };
  }
  const found = await planPush(db, {
    job: job.name,
    segmentId,
    source: await pushSourceOf(job),
    again: againOf(stored?.segmentId === segmentId ? stored : null, job, clock.now()),
  });
  const toRemove = job.mode === "mirror" ? found.toRemove : 0;
  const known = (await readSegments(db)).find((segment) => segment.segmentId === segmentId);
  return {
    calls:
      firstCalls +
      // Which of them were added, the newest page tells.
      (found.uncertain > 0 ? 1 : 0) +
      Math.ceil(found.newcomers / BATCH_PIDS) +
      Math.ceil((found.toAdd - found.newcomers) / BATCH_PIDS) +
      Math.ceil(toRemove / BATCH_PIDS),
    toSend: found.toAdd,
    push: {
      found,
      toRemove,
      sizeToCome: Math.max((known?.currentSize ?? 0) - toRemove, found.unchanged + found.toAdd),
    },
    remarks: toRemove === 0 ? [] : [removalText(job, found)],
  };
}

function removalText(job: SegmentPushJobConfig, { toRemove, own }: PlannedPush): string {
  const share = `${countText(toRemove, "member")} to remove, of the ${own.toLocaleString("en-US")} that it added`;
  if (!removesTooMany(job, { toRemove, own })) return share;
  return `${share}: more than max_remove_ratio (${job.maxRemoveRatio}) allows without your word, so that a run asks first, or needs --yes`;
}
