import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import { type LockHolder, readHolders } from "./lock.ts";
import { IS_SUCCESS } from "./runs.ts";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";

/** Last run of a job, for `confirm_above` and `status`. */
export interface PastRun {
  readonly runId: string;
  readonly shard: string;
  readonly jobType: string;
  readonly job: string;
  readonly status: string;
  readonly limitedBy: string | null;
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly recordsDue: number;
  readonly counters: Readonly<Record<RunCounter, number>>;
  readonly error: string | null;
}

/** Status of one job, for `status`. */
export interface JobStatus {
  readonly job: string;
  readonly lastRun: PastRun | null;
  /** Newest run of each shard, for the shard count of the newest run; empty before the first run. */
  readonly lastPass: readonly PastRun[];
  /** End of the last success ({@link isSuccess}); with shards, the oldest of theirs. */
  readonly lastSuccessAt: string | null;
  /** Null before the first completed run. */
  readonly coverage: {
    readonly source: string;
    readonly input_rows: number;
    readonly answered: number;
    readonly matched: number;
    readonly unmatched: number;
    readonly rejected: number;
    readonly due: number;
    readonly oldest_answer_at: string | null;
    /** Number of shards included in the sums. */
    readonly shards: number;
    /** Less than `shards` only before the first complete pass of all shards. */
    readonly shards_counted: number;
  } | null;
  readonly openRejects: Readonly<Record<string, number>>;
  /** Current holders by shard, including expired ones that were not taken over. */
  readonly holders: readonly LockHolder[];
}

/** Freshness of one table (view `table_freshness`). */
export interface TableFreshness {
  readonly table_name: string;
  readonly last_success_at: string | null;
  readonly last_changed_at: string | null;
  readonly safe_until: string | null;
}

/** Shard count in a column `shard`. */
const SHARD_COUNT = sql`split_part(shard, '/', 2)::bigint`;

/** Columns of a {@link PastRun}. */
export const runColumns = sql`run_id AS "runId", shard, job_type AS "jobType", job, status, limited_by AS "limitedBy", started_at AS "startedAt",
  finished_at AS "finishedAt", records_due AS "recordsDue", error,
  json_build_object(${sql.join(Object.keys(runCounters).flatMap((name) => [sql.lit(name), sql.id(name)]))}) AS counters`;

/** Past runs to read, enough for some nights of many shards. */
const PAST_RUNS = 500;

/** Last runs of a job, newest first. */
export function lastRuns(db: Db, job: string, limit = PAST_RUNS): Promise<readonly PastRun[]> {
  return db.transaction((session) => readLastRuns(session, job, limit));
}

async function readLastRuns(session: Session, job: string, limit: number): Promise<readonly PastRun[]> {
  return session.rows<PastRun>(sql`
    SELECT ${runColumns} FROM ${session.table("sync_run")} WHERE job = ${job} ORDER BY started_at DESC, run_id LIMIT ${limit}`);
}

/** Status of a job, for `status`. */
export async function jobStatus(db: Db, job: string): Promise<JobStatus> {
  return db.transaction(async (session) => {
    const syncRun = session.table("sync_run");
    const [lastRun] = await readLastRuns(session, job, 1);
    const lastPass = await session.rows<PastRun>(sql`
    SELECT DISTINCT ON (split_part(shard, '/', 1)::bigint) ${runColumns} FROM ${syncRun}
    WHERE job = ${job} AND ${SHARD_COUNT} = split_part(${lastRun?.shard ?? "0/1"}, '/', 2)::bigint
    ORDER BY split_part(shard, '/', 1)::bigint, started_at DESC, run_id`);
    // A pass of several shards is as old as its oldest shard.
    const [success] = await session.rows<{ at: string | null }>(sql`
    SELECT max(at) AS at FROM (
      SELECT min(at) AS at FROM (
        SELECT ${SHARD_COUNT} AS shards, max(finished_at) AS at FROM ${syncRun}
        WHERE job = ${job} AND ${IS_SUCCESS} GROUP BY shard) AS s
      GROUP BY shards HAVING count(*) = shards) AS whole`);
    const coverage = await readCoverage(session, job);
    const rejects = await session.rows<{ code: string; count: number }>(sql`
    SELECT code, count(*) AS count FROM ${session.table("reject")}
    WHERE job = ${job} AND resolved_at IS NULL GROUP BY code ORDER BY code`);
    return {
      job,
      lastRun: lastRun ?? null,
      lastPass,
      lastSuccessAt: success?.at ?? null,
      coverage,
      openRejects: Object.fromEntries(rejects.map((row) => [row.code, row.count])),
      holders: await readHolders(session, job),
    };
  });
}

/**
 * Newest coverage of the whole input: the sum of each shard's newest row, for the shard count
 * that is complete and has the newest oldest row; if none is complete, the shard count of the last run.
 */
async function readCoverage(session: Session, job: string): Promise<JobStatus["coverage"]> {
  const table = session.table("input_coverage");
  const [coverage] = await session.rows<NonNullable<JobStatus["coverage"]>>(sql`
    WITH newest AS (
      SELECT DISTINCT ON (shard) *, ${SHARD_COUNT} AS shards FROM ${table}
      WHERE job = ${job} AND source = (SELECT source FROM ${table} WHERE job = ${job} ORDER BY _synced_at DESC LIMIT 1)
      ORDER BY shard, _synced_at DESC)
    SELECT source, sum(input_rows)::bigint AS input_rows, sum(answered)::bigint AS answered,
      sum(matched)::bigint AS matched, sum(unmatched)::bigint AS unmatched, sum(rejected)::bigint AS rejected,
      sum(due)::bigint AS due, min(oldest_answer_at) AS oldest_answer_at, shards, count(*) AS shards_counted
    FROM newest GROUP BY source, shards
    ORDER BY count(*) = shards DESC, CASE WHEN count(*) = shards THEN min(_synced_at) ELSE max(_synced_at) END DESC
    LIMIT 1`);
  return coverage ?? null;
}

/** Reads the view `table_freshness`. */
export async function tableFreshness(db: Db): Promise<readonly TableFreshness[]> {
  return db.rows<TableFreshness>(sql`
    SELECT table_name, last_success_at, last_changed_at, safe_until FROM ${db.table("table_freshness")} ORDER BY table_name`);
}
