import type { SegmentPushJobConfig } from "./settings.ts";
import { StopJobError } from "../../errors.ts";
import { pageCall } from "../../extract/segment-page.ts";
import { microsOf } from "../../schemas/convert.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import type { FeedContext } from "../feed-type.ts";

type Context = FeedContext<SegmentPushJobConfig>;

const { members } = segmentEndpoints;

/**
 * How long after the moment that was noted before it a call may be carried out: its waits and repetitions take minutes. Who
 * was added later was added by others.
 */
const CALL_WINDOW_US = 3_600_000_000;

/** A segment that is being changed. */
export interface PushedTo {
  readonly segmentId: string;
  /** This run has changed something of it. */
  readonly isChanged: boolean;
}

/** Reads one page of the members. Throws a StopJobError when there is no such segment. */
export async function readPage(context: Context, segment: PushedTo, page: number) {
  const reply = await context.call(pageCall(segment.segmentId, page, new DriftLog(members.name)));
  if (reply.kind === "refused") throw gone(context, members.name, segment);
  return { page: reply.value, seenAt: reply.answeredAt };
}

/** What ends a push into a segment that isn't there. */
export function gone({ job }: Context, endpoint: string, { segmentId, isChanged }: PushedTo): StopJobError {
  const reset = job.segmentId === null ? ` or run \`checkpoint reset ${job.name}\` to make a new one` : "";
  const sofar = isChanged ? "What was changed before stays so; correct" : "Nothing was changed; correct";
  return new StopJobError(
    "segment_gone",
    `${job.name}: ${endpoint}: the service knows no segment ${segmentId} (404): it was deleted, or belongs to another ` +
      `organization. ${sofar} \`segment_id:\`${reset}.`,
  );
}

/**
 * Who was first added by the call that was begun after a moment: that is who was so within {@link CALL_WINDOW_US}, since no other
 * call of this job was under way. Who was a member long ago and comes back keeps the old time and doesn't count, so that
 * `mirror` rather leaves somebody than removes whom others added.
 */
export async function addedSince(
  context: Context,
  segment: PushedTo,
  since: string,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const sinceUs = microsOf(since);
  for (let number = 1; ; number++) {
    const { page } = await readPage(context, segment, number);
    let isOlder = page.members.length === 0;
    for (const { servicePid, firstAddedAt } of page.members) {
      if (firstAddedAt === null) continue;
      // A service may cut its times to milliseconds or seconds.
      const unitUs = firstAddedAt.includes(".") ? 1000 : 1_000_000;
      const addedUs = microsOf(firstAddedAt);
      if (addedUs < Math.floor(sinceUs / unitUs) * unitUs) isOlder = true;
      else if (addedUs <= sinceUs + CALL_WINDOW_US) found.add(servicePid);
    }
    if (isOlder || !page.listContinues) return found;
  }
}
