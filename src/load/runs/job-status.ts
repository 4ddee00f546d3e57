import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { type LockHolder, readHolders } from "./job-lock.ts";
import type { Coverage } from "../lookups/coverage.ts";
import { IS_SUCCESS } from "./success.ts";
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
  /** Sum over `shardsCounted` of `shards`, which differ until every shard has finished once. */
  readonly coverage:
    | (Coverage & {
        readonly oldestAnswerAt: string | null;
        readonly shards: number;
        readonly shardsCounted: number;
      })
    | null;
  readonly openRejects: Readonly<Record<string, number>>;
  /** Current holders by shard, including expired ones that were not taken over. */
  readonly holders: readonly LockHolder[];
}

/** Freshness of one table (view `table_freshness`). */
export interface TableFreshness {
  readonly tableName: string;
  readonly lastSuccessAt: string | null;
  readonly lastChangedAt: string | null;
  readonly safeUntil: string | null;
}

const counterNames = Object.keys(runCounters) as RunCounter[];

/** Shard count in a column `shard`. */
const SHARD_COUNT = sql`split_part(shard, '/', 2)::bigint`;

/** Row of `sync_run`. */
export type RunRow = Readonly<Record<RunCounter, number>> & {
  readonly run_id: string;
  readonly job: string;
  readonly shard: string;
  readonly job_type: string;
  readonly status: string;
  readonly limited_by: string | null;
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly records_due: number;
  readonly error: string | null;
};

/** Columns of a {@link RunRow}. */
export const runColumns = sql`run_id, job, shard, job_type, status, limited_by, started_at, finished_at, records_due, error,
  ${sql.join(counterNames.map((name) => sql.id(name)))}`;

/** Converts a row of `sync_run`. */
export function pastRunOf(row: RunRow): PastRun {
  return {
    runId: row.run_id,
    job: row.job,
    shard: row.shard,
    jobType: row.job_type,
    status: row.status,
    limitedBy: row.limited_by,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
    recordsDue: row.records_due,
    counters: Object.fromEntries(counterNames.map((name) => [name, row[name]])) as Record<RunCounter, number>,
    error: row.error,
  };
}

/** Past runs to read, enough for some nights of many shards. */
const PAST_RUNS = 500;

/** Last runs of a job, newest first. */
export function lastRuns(db: Db, job: string, limit = PAST_RUNS): Promise<readonly PastRun[]> {
  return db.transaction((session) => readLastRuns(session, db.names, job, limit));
}

async function readLastRuns(
  session: Session,
  names: SchemaNames,
  job: string,
  limit: number,
): Promise<readonly PastRun[]> {
  const rows = await session.rows<RunRow>(sql`
    SELECT ${runColumns} FROM ${tableId(names, "sync_run")} WHERE job = ${job} ORDER BY started_at DESC, run_id LIMIT ${limit}`);
  return rows.map(pastRunOf);
}

/** Status of a job, for `status`. */
export async function jobStatus(db: Db, job: string): Promise<JobStatus> {
  const { names } = db;
  return db.transaction(async (session) => {
    const syncRun = tableId(names, "sync_run");
    const [lastRun] = await readLastRuns(session, names, job, 1);
    const lastPass = await session.rows<RunRow>(sql`
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
    const coverage = await readCoverage(session, names, job);
    const rejects = await session.rows<{ code: string; count: number }>(sql`
    SELECT code, count(*) AS count FROM ${tableId(names, "reject")}
    WHERE job = ${job} AND resolved_at IS NULL GROUP BY code ORDER BY code`);
    return {
      job,
      lastRun: lastRun ?? null,
      lastPass: lastPass.map(pastRunOf),
      lastSuccessAt: success?.at ?? null,
      coverage,
      openRejects: Object.fromEntries(rejects.map((row) => [row.code, row.count])),
      holders: await readHolders(session, names, job),
    };
  });
}

/**
 * Newest coverage of the whole input: the sum of each shard's newest row, for the shard count
 * that is complete and has the newest oldest row; if none is complete, the shard count of the last run.
 */
async function readCoverage(
  session: Session,
  names: SchemaNames,
  job: string,
): Promise<JobStatus["coverage"]> {
  const table = tableId(names, "input_coverage");
  const [coverage] = await session.rows<NonNullable<JobStatus["coverage"]>>(sql`
    WITH newest AS (
      SELECT DISTINCT ON (shard) *, ${SHARD_COUNT} AS shards FROM ${table}
      WHERE job = ${job} AND source = (SELECT source FROM ${table} WHERE job = ${job} ORDER BY _synced_at DESC LIMIT 1)
      ORDER BY shard, _synced_at DESC)
    SELECT source, sum(input_rows)::bigint AS "inputRows", sum(answered)::bigint AS answered,
      sum(matched)::bigint AS matched, sum(unmatched)::bigint AS unmatched, sum(rejected)::bigint AS rejected,
      sum(due)::bigint AS due, min(oldest_answer_at) AS "oldestAnswerAt", shards, count(*) AS "shardsCounted"
    FROM newest GROUP BY source, shards
    ORDER BY count(*) = shards DESC, CASE WHEN count(*) = shards THEN min(_synced_at) ELSE max(_synced_at) END DESC
    LIMIT 1`);
  return coverage ?? null;
}

/** Reads the view `table_freshness`. */
export async function tableFreshness(db: Db): Promise<readonly TableFreshness[]> {
  const { names } = db;
  return db.transaction(async (session) => {
    return session.rows<TableFreshness>(sql`
    SELECT table_name AS "tableName", last_success_at AS "lastSuccessAt", last_changed_at AS "lastChangedAt",
      safe_until AS "safeUntil"
    FROM ${tableId(names, "table_freshness")} ORDER BY table_name`);
  });
}
