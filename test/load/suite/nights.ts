import { enrichJob } from "../../../src/jobs/lookup/lookup-types.ts";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { expect } from "vitest";
import { nextCallNumber, tableId } from "../../../src/load/db/names.ts";
import type { Warehouse } from "../../support/bound-load.ts";
import { type KeyedRecord, recordsOf } from "../../support/keyed-records.ts";
import type { Cell } from "../../../src/schemas/convert.ts";
import type { Context } from "./context.ts";
import { readCoverage } from "../../../src/load/lookups/selection.ts";
import type {
  LookupAnswer,
  LookupRecord,
  LookupReject,
  LookupSpec,
} from "../../../src/load/lookups/lookup.ts";
import type { CommitResult, LookupCommit } from "../../../src/load/lookups/commit.ts";
import type { PersonUpdate } from "../../../src/load/lookups/person-groups.ts";
import type { LookupCounts } from "../../../src/load/lookups/counts.ts";
import { noCounts, type RunEnd } from "../../../src/load/runs/runs.ts";
import type { Attempt } from "../../../src/schemas/ledger.ts";
import type { CallReservation, SendingLimits } from "../../../src/load/ledger/reserve.ts";
import type { RunRef } from "../../../src/load/runs/fence.ts";

/** Completion time of the service's calls, unless a test sets another one. */
export const ANSWERED_AT = "2026-11-21T04:00:00.123456+00:00";

/** Answer to a record: a match, a non-match (null), or a refusal. */
export type Reply =
  | {
      readonly pid: string;
      readonly score?: string;
      readonly person?: PersonUpdate;
      readonly status?: string;
    }
  | null
  | { readonly code: string };

/** Service of a night. */
export type Responder = (record: KeyedRecord) => Reply;

/**
 * Locks held by the tests: epoch by shard by job. A job has shards of one division at a time, as in the program.
 */
const held = new Map<string, ReadonlyMap<string, number>>();

/** A new run under the tests' lock (see {@link holdJobs}, {@link holdShard}). */
export function runOf(
  spec: Pick<LookupSpec, "job" | "type"> & Partial<LookupSpec>,
  runId: string = randomUUID(),
): RunRef {
  const shard = spec.shard ? `${spec.shard.index}/${spec.shard.count}` : "0/1";
  return { runId, job: spec.job, jobType: spec.type, shard, epoch: held.get(spec.job)?.get(shard) ?? 1 };
}

/** Process of the tests, alive for every other one. */
export const tester = { host: "test", pid: 1, machine: null, processStart: null };

/** All jobs of the suite. */
const suiteJobs = [
  "another",
  "enrich_again",
  "enrich_people",
  "enrich_people_again",
  "one",
  "resolve_people",
  "two",
  "validate_again",
  "validate_people",
];

/** Acquires the first lock of every job, so that tests can commit for them. */
export async function holdJobs(warehouse: Warehouse, jobs: readonly string[] = suiteJobs): Promise<void> {
  const replies = jobs.map((job) => {
    held.set(job, new Map([["0/1", 1]]));
    const run = { runId: "suite", job, jobType: "enrich", shard: "0/1" };
    return warehouse.acquireLock({ ...run, process: tester, lifeMs: 3_600_000, dead: [] });
  });
  for (const reply of await Promise.all(replies)) {
    expect(reply).toMatchObject({ kind: "held", run: { epoch: 1 } });
  }
}

/** Records the first lock of every job as held; returns the jobs. */
export function noteHeld(): readonly string[] {
  for (const job of suiteJobs) held.set(job, new Map([["0/1", 1]]));
  return suiteJobs;
}

/** Acquires the lock of a run's shard if the tests don't hold it; takes it over from any holder. */
export async function holdShard(warehouse: Warehouse, run: RunRef): Promise<void> {
  const epoch = held.get(run.job)?.get(run.shard);
  const isHeld = epoch !== undefined && (await warehouse.renewLock({ ...run, epoch }, 3_600_000));
  if (!isHeld) await seizeShard(warehouse, run);
}

/** `4` of `1/4`. */
function shardCountOf(shard: string): string | undefined {
  return shard.split("/")[1];
}

/** Takes a run's shard over from its holder, as if that process were dead. */
export async function seizeShard(
  warehouse: Warehouse,
  { runId, job, jobType, shard }: RunRef,
): Promise<void> {
  const isBeside = (other: string) => other !== shard && shardCountOf(other) === shardCountOf(shard);
  const dead = (await warehouse.jobStatus(job)).holders.filter((holder) => !isBeside(holder.shard));
  const request = { runId, job, jobType, shard, process: tester, lifeMs: 3_600_000, dead };
  const reply = await warehouse.acquireLock(request);
  if (reply.kind === "refused") throw new Error(`${job} is held by others`);
  const beside = [...(held.get(job) ?? [])].filter(([other]) => isBeside(other));
  held.set(job, new Map([...beside, [shard, reply.run.epoch]]));
}

/** Starts a run of a shard, and acquires its lock if necessary. */
export async function begin(warehouse: Warehouse, spec: LookupSpec, runId: string): Promise<RunRef> {
  await holdShard(warehouse, runOf(spec, runId));
  const run = runOf(spec, runId);
  await warehouse.beginRun(run);
  return run;
}

/** A ledger entry. */
export function callOf(changes: Partial<Attempt> = {}): Attempt {
  return {
    callId: randomUUID(),
    endpoint: "POST /v2/enrich",
    apiRequestId: "request-1",
    startedAt: "2026-11-21T04:00:00.000001+00:00",
    requestCompletedAt: ANSWERED_AT,
    milliseconds: 120,
    httpStatus: 200,
    attempt: 1,
    isSent: true,
    recordsSent: 1,
    recordsMatched: 1,
    responseBytes: 2048,
    possiblyBilled: false,
    possiblyBilledTwice: 0,
    errorCode: null,
    errorDetails: null,
    ...changes,
  };
}

/** A call with this number of records and these limits. */
export function reservationOf(
  records: number,
  limits: Partial<SendingLimits> = {},
  changes: Partial<CallReservation> = {},
): CallReservation {
  return {
    callId: randomUUID(),
    endpoint: "POST /v2/enrich",
    attempt: 1,
    startedAt: "2026-11-21T04:00:00.000Z",
    records,
    limits: { perDay: null, perMonth: null, perRun: null, perShard: null, money: null, ...limits },
    ...changes,
  };
}

/** Answer columns of each endpoint, in declared order. */
function cellsOf(spec: LookupSpec, reply: Exclude<Reply, { readonly code: string }>): readonly Cell[] {
  const isMatch = String(reply !== null);
  const pid = reply?.pid ?? null;
  const score = reply === null ? null : (reply.score ?? "75.25");
  if (spec.type === "resolve") return [isMatch, pid, score, "true", null];
  if (spec.type === "enrich") return [isMatch, pid, score, null];
  return [isMatch, reply === null ? null : (reply.status ?? "valid"), null];
}

/** Record of a call with its completion time. */
export interface CallOutcome {
  readonly call: Attempt;
  readonly completedAt: string;
}

/** Answer to a record. */
export function answerOf(
  warehouse: Warehouse,
  spec: LookupSpec,
  record: LookupRecord,
  reply: Exclude<Reply, { readonly code: string }>,
  { call, completedAt }: CallOutcome,
): LookupAnswer {
  return {
    record,
    outcome: reply === null ? "unmatched" : "matched",
    servicePid: spec.type === "validate_emails" ? null : (reply?.pid ?? null),
    cells: cellsOf(spec, reply),
    extra: null,
    person: reply?.person ? warehouse.preparePerson(reply.person) : null,
    apiRequestId: call.apiRequestId,
    completedAt,
    callId: call.callId,
  };
}

/** A record refused by the service. */
export function rejectOf(record: LookupRecord, code: string): LookupReject {
  return {
    record,
    stage: "send",
    code,
    message: "The service refuses the record.",
    details: null,
    apiRequestId: null,
  };
}

/** Commit of one call. */
export function commitOf(
  warehouse: Warehouse,
  spec: LookupSpec,
  run: RunRef,
  replies: readonly (readonly [LookupRecord, Reply])[],
  outcome: Partial<CallOutcome> = {},
): LookupCommit {
  const completedAt = outcome.completedAt ?? ANSWERED_AT;
  const call = outcome.call ?? callOf({ requestCompletedAt: completedAt, recordsSent: replies.length });
  return {
    run,
    spec,
    ledger: [call],
    answers: replies.flatMap(([record, reply]) =>
      reply !== null && "code" in reply
        ? []
        : [answerOf(warehouse, spec, record, reply, { call, completedAt })],
    ),
    rejects: replies.flatMap(([record, reply]) =>
      reply !== null && "code" in reply ? [rejectOf(record, reply.code)] : [],
    ),
    drift: [],
  };
}

/** End of a successful job. */
export function endOf({ remaining }: LookupCounts): RunEnd {
  const end = { error: null, tables: enrichJob.writes, counters: noCounts };
  return remaining > 0
    ? { ...end, status: "limited", limitedBy: "max_records" }
    : { ...end, status: "succeeded", limitedBy: null };
}

/** Result of a night. */
export interface Night {
  readonly run: RunRef;
  readonly counts: LookupCounts;
  /** Sent records, parsed, by the keys of their rows (`1` or `1,2`). */
  readonly sent: Readonly<Record<string, unknown>>;
}

/** Groups, history and what varies between equal nights. */
const NO_GIST = /^(?:isQuiet|answeredBefore|rejectReasons|unusableKeys|rowsToSend|groups|history)$/u;

/** Counts above zero, for comparison with a literal: without groups, history and reject codes. */
export function gist(counts: LookupCounts): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(counts).filter(
      ([name, value]) =>
        !NO_GIST.test(name) &&
        value !== 0 &&
        (typeof value === "number" || Object.keys(value as object).length > 0),
    ),
  );
}

/** Time of a reservation, and by the service's clock of its answer; by default each call is later than all earlier ones. */
export interface CallTime {
  readonly at: string;
  readonly callNumber?: number | undefined;
}

/** Reserves the calls of a commit at a given time, and commits it. */
export async function commitAt(
  warehouse: Warehouse,
  commit: LookupCommit,
  time: CallTime = { at: ANSWERED_AT },
): Promise<CommitResult> {
  await reserveAt(warehouse, commit, time);
  return warehouse.commitLookup(commit);
}

/** Reserves the calls of a commit at a given time. */
export async function reserveAt(
  { db }: Warehouse,
  { run: { runId, job }, ledger }: LookupCommit,
  { at, callNumber }: CallTime,
): Promise<void> {
  await db.transaction(async (session) => {
    for (const { callId, endpoint, startedAt, attempt } of ledger) {
      await session.change(sql`
        INSERT INTO ${tableId(db.names, "api_call")} (call_id, run_id, job, call_number, endpoint, started_at, attempt, records_sent,
          response_bytes, possibly_billed, reserved_at, records_reserved, records_in_doubt,
          records_possibly_billed_twice, _synced_at)
        VALUES (${callId}, ${runId}, ${job}, ${callNumber ?? nextCallNumber(db.names)}, ${endpoint}, ${startedAt}, ${attempt}, 0, 0, true, ${at}, 0, 0, 0, now())`);
    }
  });
}

/** Every row read has one outcome, and every due row one reason. */
function expectCountsToAddUp(counts: LookupCounts): void {
  const { unchanged, duplicate, suppressed, waiting, toSend, rejectedBeforeSending, remaining } = counts;
  const ended = unchanged + duplicate + suppressed + waiting + toSend + rejectedBeforeSending + remaining;
  expect(ended).toBe(counts.read);
  expect(Object.values(counts.dueReasons).reduce((sum, n) => sum + n, 0)).toBe(counts.due);
}

/**
 * Runs a job once like the program: selects, commits the service's answers, ends the run. Checks that the plan
 * before it finds the same rows and that the counts add up.
 */
export async function runNight(
  { warehouse }: Context,
  spec: LookupSpec,
  respond: Responder = () => null,
  { at = ANSWERED_AT, callNumber }: Partial<CallTime> = {},
): Promise<Night> {
  const { counts: planned } = await warehouse.previewLookup(spec, 0);
  const run = await begin(warehouse, spec, randomUUID());
  const selection = await warehouse.selectLookup(spec, run);
  const { counts } = selection;
  // Only a plan counts the records of waiting rows.
  expect(counts).toEqual({ ...planned, waitingRecords: 0, isQuiet: counts.isQuiet });
  expectCountsToAddUp(counts);
  const records = await recordsOf(warehouse.db, spec, selection);
  expect(records).toHaveLength(counts.toSend);
  if (records.length > 0) {
    const replies = records.map((record) => [record, respond(record)] as const);
    const commit = commitOf(warehouse, spec, run, replies, { completedAt: at });
    await commitAt(warehouse, commit, { at, callNumber });
  }
  await selection.close();
  await warehouse.endRun(run, endOf(counts), await readCoverage(warehouse.db, spec, counts.unusableKeys));
  const sent = records
    .map((record) => [record.keys.join(","), JSON.parse(record.json)] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  return { run, counts, sent: Object.fromEntries(sent) };
}

/** Matches every record with a PID derived from its first row's key. */
export const matchAll: Responder = (record) => ({ pid: `p-${record.keys[0]}` });
