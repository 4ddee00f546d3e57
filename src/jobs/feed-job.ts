import { type Commit, commit } from "../load/write/commit.ts";
import { readCheckpoints, type StoredCheckpoint } from "../load/write/checkpoints.ts";
import type { JobConfig } from "../config/config.ts";
import { callFree } from "../extract/free-call.ts";
import type { FeedContext, FeedJobType, FeedRows } from "./feed-type.ts";
import type { JobType } from "./job-type.ts";
import type { Db } from "../load/db/db.ts";
import { estimateSeconds } from "./lookup/estimate.ts";
import type { PlanContext, Planned } from "./report/job-plan.ts";
import { endOfError, type JobContext, succeeded, type Worked } from "./job.ts";
import { stopReason } from "./stop-reason.ts";
import type { Attempt } from "../schemas/attempt.ts";

/** Completes a feed's declaration to a job type. */
export function feedJob<J extends JobConfig>(feed: FeedJobType<J>): JobType {
  const type: JobType<J> = {
    ...feed,
    isSharded: false,
    reads: feed.reads ?? (() => []),
    async plan(context, job) {
      const planned = planFeed(context, job, feed.plannedCalls(job));
      const { db, clock } = context;
      const checkpoints = await storedCheckpoints(db, job.name);
      const known = await feed.plan?.({ db, clock, job, checkpoints });
      const remarks = feed.remarks?.(job, [...checkpoints.values()]) ?? [];
      const plan = { ...planned.plan, remarks: [...planned.plan.remarks, ...remarks], ...known };
      return { ...planned, plan: { ...plan, records_expected: plan.records_to_send } };
    },
    run: (context) => runFeed(feed, context),
  };
  return type;
}

/** Plans a feed without counting pages, which would need calls. */
function planFeed(
  { config }: PlanContext,
  job: JobConfig,
  { least, more }: ReturnType<FeedJobType["plannedCalls"]>,
): Planned {
  const plan = {
    job: job.name,
    type: job.type,
    records_read: 0,
    records_due: 0,
    due_reasons: {},
    records_unchanged: 0,
    records_duplicate: 0,
    records_waiting: 0,
    records_suppressed: 0,
    records_rejected_before_sending: 0,
    reject_reasons: {},
    records_to_send: 0,
    records_expected: 0,
    records_remaining: 0,
    limited_by: null,
    budget_left: null,
    calls: least,
    estimated_billable: { low: 0, expected: 0, high: 0, basis: "free" },
    // Calls are made one at a time.
    estimated_seconds: estimateSeconds(least, {
      concurrency: 1,
      requestsPerSecond: config.service.requestsPerSecond,
    }),
    needs_confirmation: false,
    waiting_answers: { calls: 0, bytes: 0 },
    remarks: more === "" ? [] : [`more calls, ${more}`],
  };
  return { plan, sending: 0 };
}

/** Runs a feed; maps a thrown error to the job's end. */
async function runFeed<J extends JobConfig>(feed: FeedJobType<J>, job: JobContext<J>): Promise<Worked> {
  const { signal } = job;
  try {
    await feed.run(await openContext(job));
    return { end: succeeded };
  } catch (error) {
    // Errors caused by a stop don't count as failures.
    const cause = signal.aborted && isAbort(error, signal) ? stopReason(signal) : error;
    return { end: endOfError(cause, `running a job of type ${job.job.type}`) };
  }
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  return error === signal.reason || (error instanceof Error && error.name === "AbortError");
}

async function storedCheckpoints(db: Db, job: string): Promise<ReadonlyMap<string, StoredCheckpoint>> {
  return new Map((await readCheckpoints(db, job)).map((found) => [found.stream, found]));
}

async function openContext<J extends JobConfig>(context: JobContext<J>): Promise<FeedContext<J>> {
  const { db, clock, log, signal, http, limiter, random, job, run, outage, totals } = context;
  const checkpoints = await outage.outlast(() => storedCheckpoints(db, job.name));
  const onAttempt = (attempt: Attempt) => totals.addAttempt(attempt);

  return {
    ...context,
    checkpoints,
    async call(call) {
      if (signal.aborted) throw stopReason(signal);
      return await callFree({ http, limiter, clock, log, signal, random, onAttempt }, call);
    },
    async commit<Result>(rows: FeedRows<Result>) {
      totals.add(rows.counters ?? {});
      const { ledger: calls, counters } = totals.take();
      // The same object for each attempt.
      const parts: Commit<Result> = { ...rows, calls, counters };
      try {
        const committed = await outage.outlast(() => commit(db, run, parts));
        totals.addRecorded({ rows_written: committed.rowsWritten });
        return committed;
      } catch (error) {
        totals.putBack({ ledger: calls, counters });
        throw error;
      }
    },
    count: (counters) => totals.add(counters),
  };
}
