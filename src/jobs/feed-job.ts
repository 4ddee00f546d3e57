import { commitFeed, readCheckpoints } from "../load/feeds/feeds.ts";
import { recordAttempts } from "../load/ledger/record-attempts.ts";
import { beginRun, endRun } from "../load/runs/runs.ts";
import { randomUUID } from "node:crypto";
import type { JobConfig } from "../config/config.ts";
import { LockLostError } from "../errors.ts";
import { callFree } from "../extract/free-call.ts";
import type { Attempt } from "../extract/lookup.ts";
import type { StoredCheckpoint } from "../load/feeds/feed-commit.ts";
import type { CounterDelta, RunRef } from "../load/lookup.ts";
import type { FeedBooks, FeedContext, FeedJobType } from "./feed-type.ts";
import type { JobResult, JobType } from "./job-type.ts";
import { estimateSeconds } from "./lookup/estimate.ts";
import type { PlanContext, Planned } from "./report/job-plan.ts";
import { countAttempts } from "./call-counters.ts";
import { sumOf } from "../load/ledger/books.ts";
import { holdJob } from "./hold-job.ts";
import { endOfError, type JobEnd, locked, succeeded } from "./job-end.ts";
import { createOutage, type Outage } from "./outage.ts";
import { type Counters, zeroCounters } from "./run-report.ts";
import type { JobServices, RunRequest } from "./services.ts";
import { shardText, wholeInput } from "./shard.ts";
import { stopReason } from "./stop-reason.ts";

/** The job type of a feed's declaration: what all feeds have in common is added. */
export function feedJob<J extends JobConfig>(feed: FeedJobType<J>): JobType {
  const type: JobType<J> = {
    ...feed,
    isSharded: false,
    reads: feed.reads ?? (() => []),
    plan: async (context, job) => planFeed(context, job, feed.plannedCalls(job)),
    run: (services, job, request) => runFeedJob(services, { feed, job }, request),
  };
  return type;
}

/** Plans a feed without a call, and so without counting pages: free calls cost nothing. */
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
    records_to_send: 0,
    records_remaining: 0,
    limited_by: null,
    budget_left: null,
    calls: least,
    estimated_billable: { low: 0, expected: 0, high: 0, basis: "free" },
    // One call after the other.
    estimated_seconds: estimateSeconds(least, {
      concurrency: 1,
      requestsPerSecond: config.service.requestsPerSecond,
    }),
    waiting_answers: { calls: 0, bytes: 0 },
    remarks: more === "" ? [] : [`free calls, ${more}`],
  };
  return { plan, sending: 0 };
}

/** A job with the declaration of its type. */
interface DeclaredFeed<J extends JobConfig> {
  readonly feed: FeedJobType<J>;
  readonly job: J;
}

/** Runs one feed once and keeps the books, unless another process runs it. Feeds are never divided into shards. */
async function runFeedJob<J extends JobConfig>(
  services: JobServices,
  declared: DeclaredFeed<J>,
  request: RunRequest,
): Promise<JobResult> {
  const { job } = declared;
  const wanted = {
    runId: request.runId,
    job: job.name,
    jobType: job.type,
    shard: shardText(wholeInput),
  };
  const hold = await holdJob(services, wanted, request);
  if (hold.kind === "refused") return { end: locked("locked", hold.message), counters: zeroCounters };
  const { run, signal, release } = hold.held;
  try {
    return await runHeld({ ...services, signal }, declared, request, run);
  } finally {
    await release();
  }
}

async function runHeld<J extends JobConfig>(
  services: JobServices,
  declared: DeclaredFeed<J>,
  request: RunRequest,
  run: RunRef,
): Promise<JobResult> {
  const { db, config, clock, log, signal } = services;
  const { job } = declared;
  await beginRun(db, run);
  const outage = createOutage({
    clock,
    log,
    signal,
    retryForMs: config.warehouse.retryForMs,
    job: job.name,
  });
  const books = createBooks();
  const end = await work(services, { ...declared, request, run, outage, books });
  if (end.status === "locked") return { end, counters: books.counters() };
  const { status, limitedBy, error } = end;
  try {
    const left = books.take();
    if (left.ledger.length > 0) {
      await outage.outlast(() => recordAttempts(db, run, left.ledger, left.counters));
    }
    const runEnd = { status, limitedBy, error: error?.message ?? null, counters: books.counters() };
    await outage.outlast(() => endRun(db, run, runEnd, null));
  } catch (failure) {
    const counters = books.counters();
    if (failure instanceof LockLostError) return { end: endOfError(failure), counters };
    return { end: { ...(status === "failed" ? end : endOfError(failure)), stopsRun: true }, counters };
  }
  return { end, counters: books.counters() };
}

interface Task<J extends JobConfig> extends DeclaredFeed<J> {
  readonly request: RunRequest;
  readonly run: RunRef;
  readonly outage: Outage;
  readonly books: Books;
}

/** Does the job's work; whatever is thrown on the way becomes the end. */
async function work<J extends JobConfig>(services: JobServices, task: Task<J>): Promise<JobEnd> {
  const { signal } = services;
  try {
    const context = await openContext(services, task);
    await task.feed.run(context);
    return succeeded;
  } catch (error) {
    // What a stop, or the loss of the lock, made fail on the way is no failure of its own.
    return endOfError(signal.aborted && isAbort(error, signal) ? stopReason(signal) : error);
  }
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  return (
    error === signal.reason ||
    signal.reason instanceof LockLostError ||
    (error instanceof Error && error.name === "AbortError")
  );
}

async function openContext<J extends JobConfig>(
  services: JobServices,
  task: Task<J>,
): Promise<FeedContext<J>> {
  const { config, db, clock, log, signal, progress, http, limiter, random } = services;
  const { job, request, run, outage, books } = task;
  const stored = await outage.outlast(() => readCheckpoints(db, job.name));
  const onAttempt = (attempt: Attempt) => books.note(attempt);

  async function inBooks<Result>(
    counters: CounterDelta,
    commit: (of: FeedBooks) => Promise<Result>,
  ): Promise<Result> {
    books.add(counters);
    const taken = books.take();
    const commitId = randomUUID();
    try {
      return await outage.outlast(() => commit({ run, commitId, ...taken }));
    } catch (error) {
      books.putBack(taken);
      throw error;
    }
  }

  return {
    config,
    db,
    clock,
    log,
    signal,
    progress,
    job,
    run,
    request,
    outage,
    checkpoints: new Map(stored.map((found): [string, StoredCheckpoint] => [found.stream, found])),
    async call(call) {
      if (signal.aborted) throw stopReason(signal);
      return await callFree({ http, limiter, clock, log, signal, random, onAttempt }, call);
    },
    async commit({ upserts = [], checkpoints = [], counters = {}, drift = [], organization }) {
      const results = await inBooks(counters, (of) =>
        commitFeed(db, { ...of, drift, upserts, checkpoints, organization }),
      );
      const counted = results.filter((_, i) => !upserts[i]?.isBookkeeping);
      const written = counted.reduce((sum, of) => sum + of.inserted + of.updated + of.marked, 0);
      books.count({ rows_written: written });
      return results;
    },
    async commitWith(counters, commit) {
      const result = await inBooks(counters, commit);
      books.count({ rows_written: result.rowsWritten });
      return result;
    },
    count: (counters) => books.add(counters),
  };
}

/** What a run has done, and what of it waits to be written down. */
interface Books {
  note(attempt: Attempt): void;
  /** Adds to the totals and to what the next commit writes down. */
  add(counters: CounterDelta): void;
  /** Adds to the totals what the warehouse has written down itself. */
  count(counters: CounterDelta): void;
  /** What wasn't taken before. */
  take(): TakenBooks;
  /** Takes back what could not be written down, for the next who does; attempts that were noted all the same count once. */
  putBack(taken: TakenBooks): void;
  counters(): Counters;
}

/** What a commit writes down. */
interface TakenBooks {
  readonly ledger: readonly Attempt[];
  readonly counters: CounterDelta;
}

function createBooks(): Books {
  let totals: CounterDelta = {};
  let waiting: CounterDelta = {};
  let ledger: Attempt[] = [];
  const add = (counters: CounterDelta) => {
    totals = sumOf([totals, counters]);
    waiting = sumOf([waiting, counters]);
  };
  return {
    note(attempt) {
      ledger.push(attempt);
      add(countAttempts([attempt]));
    },
    add,
    count: (counters) => {
      totals = sumOf([totals, counters]);
    },
    take() {
      const taken = { ledger, counters: waiting };
      ledger = [];
      waiting = {};
      return taken;
    },
    putBack(taken) {
      ledger = [...taken.ledger, ...ledger];
      waiting = sumOf([taken.counters, waiting]);
    },
    counters: () => ({ ...zeroCounters, ...totals }),
  };
}
