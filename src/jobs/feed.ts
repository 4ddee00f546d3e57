import { hash } from "node:crypto";
import type { z } from "zod";
import type { JobConfig } from "../config/config.ts";
import type { JobDeclaration } from "../config/schema/jobs.ts";
import { LimitReachedError, OWN_LIMITS, StopJobError } from "../errors.ts";
import { callFree, type FreeCall, type FreeReply } from "../extract/free-call.ts";
import type { Db } from "../load/db/db.ts";
import { type CounterDelta, recordCalls } from "../load/ledger/ledger.ts";
import type { CallOwner } from "../load/runs/fence.ts";
import {
  type Commit,
  commit,
  type Committed,
  readCheckpoints,
  type StoredCheckpoint,
} from "../load/write/commit.ts";
import type { Upsert } from "../load/write/upsert.ts";
import { type Cell, instantAt } from "../schemas/convert.ts";
import type { Attempt } from "../schemas/ledger.ts";
import { type RejectCode, rejectCodes } from "../schemas/reject-codes.ts";
import type { JobCheckpoints, JobPlan, JobType } from "./job-type.ts";
import { endOfError, type JobContext, succeeded, type WorkResult } from "./job.ts";
import { estimateSeconds } from "./lookup/estimate.ts";
import { stopReason } from "./retry-while-down.ts";
import type { JobServices } from "./services.ts";

export function feedJob<J extends JobConfig>(feed: FeedJobType<J>): JobType {
  const type: JobType<J> = {
    ...feed,
    isSharded: false,
    reads: feed.reads ?? (() => []),
    async plan({ config, db, clock }, job) {
      const checkpoints = await storedCheckpoints(db, job.name);
      const known = await feed.plan?.({ db, clock, job, checkpoints });
      const remarks = feed.remarks?.(job, [...checkpoints.values()]) ?? [];
      const { least, more } = feed.plannedCalls(job);
      const plan = {
        job: job.name,
        type: job.type,
        ...NOTHING_TO_SEND,
        calls: least,
        // Calls are made one at a time.
        estimated_seconds: estimateSeconds(least, { ...config.service, concurrency: 1 }),
        // A plan makes no calls to count pages.
        remarks: [...(more === "" ? [] : [`more calls, ${more}`]), ...remarks],
        ...known,
      };
      return { plan: { ...plan, records_expected: plan.records_to_send }, sending: 0 };
    },
    run: (context) => runFeed(feed, context),
  };
  return type;
}

const NOTHING_TO_SEND: Omit<JobPlan, "job" | "type" | "calls" | "estimated_seconds" | "remarks"> = {
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
  estimated_billable: { low: 0, expected: 0, high: 0, basis: "free" },
  needs_confirmation: false,
  waiting_answers: { calls: 0, bytes: 0 },
};

/** Runs a feed; maps a thrown error to the job's end. */
async function runFeed<J extends JobConfig>(feed: FeedJobType<J>, job: JobContext<J>): Promise<WorkResult> {
  const { signal } = job;
  try {
    await feed.run(await openContext(job));
    return { end: succeeded };
  } catch (error) {
    // Errors caused by a stop don't count as failures.
    const isAbort = error === signal.reason || (error instanceof Error && error.name === "AbortError");
    const cause = signal.aborted && isAbort ? stopReason(signal) : error;
    return { end: endOfError(cause, `running a job of type ${job.job.type}`) };
  }
}

async function storedCheckpoints(db: Db, job: string): Promise<ReadonlyMap<string, StoredCheckpoint>> {
  return new Map((await readCheckpoints(db, job)).map((found) => [found.stream, found]));
}

async function openContext<J extends JobConfig>(context: JobContext<J>): Promise<FeedContext<J>> {
  const { db, clock, log, signal, http, limiter, random, job, run, totals } = context;
  const checkpoints = await storedCheckpoints(db, job.name);
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
      const taken = totals.take();
      const parts = { ...rows, calls: taken.ledger, counters: taken.counters };
      try {
        const committed = await commit(db, run, parts);
        totals.addRecorded({ rows_written: committed.rowsWritten });
        return committed;
      } catch (error) {
        totals.putBack(taken);
        throw error;
      }
    },
    count: (counters) => totals.add(counters),
  };
}

/** Makes a free call outside of a job's run; the ledger gets its attempts even if it fails. */
export async function callRecorded<T>(
  services: Pick<JobServices, "db" | "http" | "limiter" | "clock" | "log" | "signal" | "random">,
  caller: CallOwner,
  call: FreeCall<T>,
): Promise<FreeReply<T>> {
  const attempts: Attempt[] = [];
  try {
    return await callFree({ ...services, onAttempt: (attempt) => void attempts.push(attempt) }, call);
  } finally {
    await recordCalls(services.db, caller, attempts);
  }
}

/** Rows of one commit of a feed; attempts are added. */
type FeedRows<Result = null> = Omit<Commit<Result>, "calls" | "sentBy" | "counters"> & {
  readonly counters?: CounterDelta;
};

export interface FeedContext<J extends JobConfig = JobConfig>
  extends Omit<JobContext<J>, "http" | "limiter" | "totals" | "pastRuns"> {
  /** Checkpoints at the start of the run, by stream. */
  readonly checkpoints: ReadonlyMap<string, StoredCheckpoint>;
  /** Makes a free call, whose attempts become part of the next commit. Throws if the job must stop. */
  call<T>(call: FreeCall<T>): Promise<FreeReply<T>>;
  /** Commits rows together with all attempts and counters since the last commit. */
  commit<Result = null>(rows: FeedRows<Result>): Promise<Committed<Result>>;
  /** Adds to the counters of the next commit, or of the run's end. */
  count(counters: CounterDelta): void;
}

export type FeedPlanContext<J extends JobConfig = JobConfig> = Pick<
  FeedContext<J>,
  "db" | "clock" | "job" | "checkpoints"
>;

/** Type of a job whose calls are free, unless it reserves them itself. */
export interface FeedJobType<J extends JobConfig = JobConfig>
  extends JobDeclaration,
    Pick<JobType<J>, "endpoints" | "writes" | "remarks"> {
  readonly checkpoints: JobCheckpoints<J>;
  /** Tables and queries that the job reads; none by default. */
  reads?: JobType<J>["reads"];
  /** Minimum number of calls, and a description of the others: a plan makes no calls to count pages. */
  readonly plannedCalls: (job: J) => { readonly least: number; readonly more: string };
  /** Parts of the plan that the warehouse knows; calls as {@link plannedCalls} says, and nothing billed, by default. */
  plan?(context: FeedPlanContext<J>): Promise<Partial<JobPlan>>;
  /** Reads, flattens, writes. Throws a StopJobError if some of it failed. */
  run(context: FeedContext<J>): Promise<void>;
}

/** Collects the errors of single searches or segments, so that the others continue. */
export function collectErrors() {
  const failures: StopJobError[] = [];
  const limits: LimitReachedError[] = [];
  return {
    /** Keeps a StopJobError or LimitReachedError; throws any other error. */
    keep: (error: unknown): void => {
      if (error instanceof StopJobError) failures.push(error);
      else if (error instanceof LimitReachedError) limits.push(error);
      else throw error;
    },
    /** Throws the kept errors as one. A failure outranks a limit, and a limit of the service one of the user. */
    throwIfAny: (): void => {
      const message = [...new Set([...failures, ...limits].map((error) => error.message))].join(" ");
      const [failure] = failures;
      if (failure) throw new StopJobError(failure.code, message, { cause: failure });
      const limit = limits.find(({ code }) => !OWN_LIMITS.includes(code)) ?? limits[0];
      if (limit) throw new LimitReachedError(limit.code, message, { cause: limit });
    },
  };
}

/** Error for something at the service that a call doesn't find (404). @param next what was kept, and the next step */
export function goneError(code: string, call: string, subject: string, next: string): StopJobError {
  return new StopJobError(
    code,
    `${call}: the service has no ${subject} (404): it was deleted, or belongs to another organization. ${next}`,
  );
}

/** Record that can't be stored. Every reading finds it again. */
export interface FeedReject {
  /** Identifies it within its job. */
  readonly identity: readonly (string | null)[];
  readonly sourceKey: string | null;
  readonly message: string;
  readonly details?: string;
}

/** Origin of rejects. */
interface RejectSource {
  readonly source: string;
  readonly code: keyof typeof rejectCodes;
  readonly apiRequestId?: string | null;
  /** Time of the reading, ISO 8601; now by default. */
  readonly at?: string;
}

const columns = [
  "reject_id",
  "run_id",
  "job",
  "source",
  "source_key",
  "stage",
  "code",
  "message",
  "details",
  "api_request_id",
  "created_at",
  "resolved_at",
];

function stableUuid(values: readonly (string | null)[]): string {
  const digits = hash("sha256", JSON.stringify(values), "hex");
  return digits.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/u, "$1-$2-8$3-8$4-$5");
}

/** Keeps one open row of `reject` per given record, and resolves other rejects of the same source and code. */
export function upsertRejects(
  { run, clock }: Pick<FeedContext, "run" | "clock">,
  { source, code, apiRequestId = null, at = instantAt(clock.now()) }: RejectSource,
  rejects: () => Iterable<FeedReject>,
): Upsert {
  const { stage }: RejectCode = rejectCodes[code];
  return {
    table: "reject",
    columns,
    keep: ["run_id", "api_request_id", "created_at"],
    rows: {
      *[Symbol.iterator](): Generator<readonly Cell[]> {
        for (const { identity, sourceKey, message, details = null } of rejects()) {
          const id = stableUuid(identity);
          const stated = [sourceKey, stage, code, message, details];
          // Reopens the reject even if it was dropped or retried.
          yield [id, run.runId, run.job, source, ...stated, apiRequestId, at, null];
        }
      },
    },
    missing: { scope: { job: run.job, source, code }, flag: null, since: "resolved_at", at },
  };
}

/** True if a period since `since` (null: never) is over, or if `since` is in the future, set by a user or a wrong clock. */
export function isOver(since: string | null, everyMs: number, atMs: number): boolean {
  const ageMs = atMs - Date.parse(since ?? "never");
  return !(ageMs >= 0 && ageMs < everyMs);
}

/** Returns the cursor of a stream; null before its first commit. Throws a StopJobError for an invalid cursor. */
export function readCursor<T>(
  checkpoints: ReadonlyMap<string, Pick<StoredCheckpoint, "cursor">>,
  job: { readonly name: string },
  stream: string,
  schema: z.ZodType<T>,
): T | null {
  const stored = checkpoints.get(stream);
  if (!stored) return null;
  const read = schema.safeParse(stored.cursor);
  if (read.success) return read.data;
  throw new StopJobError(
    "bad_checkpoint",
    `${job.name}: the checkpoint of stream ${stream} can't be read: ${issuesOf(read.error)}. Fix it with \`person-etl checkpoint set ` +
      `${job.name}\`, or delete it with \`person-etl checkpoint reset ${job.name}\`.`,
  );
}

/** Problems of a cursor by key: `next must be …`. */
function issuesOf({ issues }: z.ZodError): string {
  return issues
    .map(({ path: [key], message }) => `${key === undefined ? "it" : String(key)} ${message}`)
    .join("; ");
}
