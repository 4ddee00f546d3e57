import { readSegments } from "../../load/feeds/stored-segments.ts";
import type { SegmentMembersJobConfig } from "../../config/config.ts";
import { foreseeSegments } from "./feed-segments.ts";
import type { FeedForecast, ForecastContext } from "../feed-type.ts";
import { readMemberCheckpoint } from "./member-checkpoint.ts";
import { isSweepDue } from "./sweep-due.ts";

/** Members on one page. */
const PAGE_MEMBERS = 5000;

/** Pages of the segments: one for a quiet check, all where a whole reading is due. What proves removals is read on top of it. */
export async function forecastMembers(
  context: ForecastContext<SegmentMembersJobConfig>,
): Promise<FeedForecast> {
  const { job, db, clock, checkpoints } = context;
  const stored = await readSegments(db);
  const { segments, remarks } = await foreseeSegments(context, job.segments);
  const unread: string[] = [];
  let calls = 0;
  for (const { id, name, sizeToCome } of segments) {
    const known = stored.find(({ segmentId }) => segmentId === id);
    const size = sizeToCome ?? known?.currentSize ?? null;
    if (size === null) unread.push(`how many members ${name} has isn't known before it is first read`);
    const pages = Math.max(1, Math.ceil((size ?? 0) / PAGE_MEMBERS));
    const before = readMemberCheckpoint(id === null ? null : (checkpoints.get(id)?.cursor ?? null));
    const isWhole =
      isSweepDue(job, before, { pages, atMs: clock.now() }) || (known?.removalsPending ?? 0) > 0;
    calls += isWhole ? pages : 1;
  }
  return { calls, toSend: 0, remarks: [...remarks, ...unread] };
}
