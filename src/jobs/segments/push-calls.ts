import { type ChangeAnswer, changeCall } from "../../extract/segment-change.ts";
import { countPush, finishBatch, type PushChange, returnBatch, takeBatch } from "../../load/feeds/push.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import type { FeedContext } from "../feed-type.ts";
import { gone } from "./push-target.ts";
import type { SegmentPushJobConfig } from "./settings.ts";

const { add, remove } = segmentEndpoints;

/** PIDs per call (section 8 advises 1,000 to 10,000). */
const BATCH_PIDS = 10_000;

type Context = FeedContext<SegmentPushJobConfig>;

/** Totals of a push. */
export interface Pushed {
  /** PIDs in answered calls. */
  done: number;
  sent: number;
  added: number;
  removed: number;
  rejected: number;
  /** Size of the segment after the last call; null if the service omitted it. */
  size: number | null;
}

/** Adds or removes all pending PIDs. Returns false if `--max-records` left some. */
export async function changeListed(
  context: Context,
  segmentId: string,
  change: PushChange,
  pushed: Pushed,
): Promise<boolean> {
  const { request, db, run, outage } = context;
  let size = BATCH_PIDS;
  let after = "";
  for (;;) {
    const limit = Math.min(size, (request.maxRecords ?? Number.POSITIVE_INFINITY) - pushed.done);
    if (limit <= 0) {
      const counts = await outage.outlast(() => countPush(db, { job: run.job, segmentId }));
      return (change === "add" ? counts.toAdd : counts.toRemove) === 0;
    }
    const begin = { change, after, limit };
    const { pids, last } = await outage.outlast(() => takeBatch(db, run, segmentId, begin));
    if (last === null) return true;
    if (pids.length === 0 || (await sendBatch(context, segmentId, { change, pids, pushed }))) after = last;
    else {
      await outage.outlast(() => returnBatch(db, run, segmentId, { change, pids }));
      size = Math.ceil(pids.length / 2);
    }
  }
}

/** Makes one call and records its answer. Returns false if the service rejected it as too large. */
async function sendBatch(
  context: Context,
  segmentId: string,
  batch: { readonly change: PushChange; readonly pids: readonly string[]; readonly pushed: Pushed },
): Promise<boolean> {
  const { change, pids, pushed } = batch;
  const target = change === "add" ? add : remove;
  const drift = new DriftLog(target.name);
  const reply = await context.call({
    ...changeCall(target, segmentId, pids, drift),
    expects: pids.length > 1 ? [404, 413] : [404],
  });
  if (reply.kind === "refused") {
    if (reply.status === 404) throw gone(context, target.name, segmentId, pushed.done > 0);
    return false;
  }
  const { value: answer, apiRequestId, mayBeDone } = reply;
  const invalid = change === "add" ? invalidOf(pids, answer.invalid) : [];
  const finished = {
    segmentId,
    change,
    pids,
    invalid,
    isOwn: madeAllMembers(answer, mayBeDone),
    apiRequestId,
    rejectMessage: `${target.name}: the service does not have this PID.`,
  };
  const counters = count(pushed, change, { sent: pids.length, invalid: invalid.length, answer });
  await context.commit({
    also: (writing) => finishBatch(writing, finished),
    counters,
    drift: drift.entries(),
  });
  context.progress.advance(context.job.name, pids.length, { rejected: invalid.length });
  return true;
}

/** True if no PID of an add was a member before. An earlier attempt without an answer may have added some. */
function madeAllMembers({ redundant }: Pick<ChangeAnswer, "redundant">, mayBeDone: boolean): boolean {
  return redundant === 0 && !mayBeDone;
}

/** Adds an answer to the totals; returns the counters of its commit. */
function count(
  pushed: Pushed,
  change: PushChange,
  {
    sent,
    invalid,
    answer,
  }: { readonly sent: number; readonly invalid: number; readonly answer: ChangeAnswer },
) {
  pushed.done += sent;
  pushed.size = answer.newSize;
  if (change === "remove") {
    pushed.removed += answer.changed ?? 0;
    return {};
  }
  pushed.sent += sent;
  pushed.added += answer.changed ?? 0;
  pushed.rejected += invalid;
  return { records_sent: sent, records_matched: sent - invalid, records_rejected: invalid };
}

const plain = (pid: string): string => pid.trim().toLowerCase();

/** Returns the PIDs reported as invalid, even if spelled differently. */
function invalidOf(given: readonly string[], invalid: readonly string[]): readonly string[] {
  if (invalid.length === 0) return [];
  const [asked, exact] = [new Set(given), new Set(invalid)];
  const others = new Set(invalid.filter((pid) => !asked.has(pid)).map(plain));
  return given.filter((pid) => exact.has(pid) || others.has(plain(pid)));
}
