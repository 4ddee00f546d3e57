import { commitFeed, readCheckpoints } from "../load/feeds/feeds.ts";
import { recordAttempts } from "../load/ledger/record-attempts.ts";
import { beginRun, endRun } from "../load/runs/runs.ts";
import { randomUUID } from "node:crypto";
import type { FeedJobConfig } from "../config/config.ts";
import { LockLostError } from "../errors.ts";
import { callFree } from "../extract/free-call.ts";
import type { Attempt } from "../extract/lookup.ts";
import type { StoredCheckpoint } from "../load/feeds/feed-commit.ts";
import type { CounterDelta, RunRef } from "../load/lookup.ts";
import type { FeedBooks, FeedContext } from "./feed-type.ts";
import { countAttempts } from "./call-counters.ts";
import { sumOf } from "../load/ledger/books.ts";
import { bindFeed } from "./feed-types.ts";
import { holdJob } from "./hold-job.ts";
import { endOfError, type JobEnd, locked, succeeded } from "./job-end.ts";
import type { JobResult } from "./lookup/lookup-job.ts";
import { createOutage, type Outage } from "./outage.ts";
import { type Counters, zeroCounters } from "./run-report.ts";
import type { JobServices, RunRequest } from "./services.ts";
import { shardText, wholeInput } from "./shard.ts";
import { stopReason } from "./stop-reason.ts";

/** Runs one feed once and keeps the books, unless another process runs it. Feeds are never divided into shards. */
export async function runFeedJob(
  services: JobServices,
  job: FeedJobConfig,
  request: RunRequest,
): Promise<JobResult> {
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
    return await runHeld({ ...services, signal }, job, request, run);
  } finally {
    await release();
  }
}

async function runHeld(
  services: JobServices,
  job: FeedJobConfig,
  request: RunRequest,
  run: RunRef,
): Promise<JobResult> {
  const { db, config, clock, log, signal } = services;
  await beginRun(db, run);
  const outage = createOutage({
    clock,
    log,
    signal,
    retryForMs: config.warehouse.retryForMs,
    job: job.name,
  });
  const books = createBooks();
  const end = await work(services, { job, request, run, outage, books });
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

interface Task {
  readonly job: FeedJobConfig;
  readonly request: RunRequest;
  readonly run: RunRef;
  readonly outage: Outage;
  readonly books: Books;
}

/** Does the job's work; whatever is thrown on the way becomes the end. */
async function work(services: JobServices, task: Task): Promise<JobEnd> {
  const { signal } = services;
  try {
    const context = await openContext(services, task);
    await bindFeed(task.job).run(context);
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

async function openContext(services: JobServices, task: Task): Promise<Omit<FeedContext, "job">> {
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
