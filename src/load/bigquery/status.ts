import { sql } from "kysely";
import type { JobStatus, TableFreshness } from "../warehouse.ts";
import { readHolders } from "./job-lock.ts";
import { tableId } from "./names.ts";
import { lastRuns, pastRunOf, runColumns, type RunRow } from "./runs.ts";
import type { Session } from "./session.ts";

/** Which shard a run was, and of how many, of a column `shard`. */
const SHARD_INDEX = sql`CAST(SPLIT(shard, '/')[SAFE_OFFSET(0)] AS INT64)`;
const SHARD_COUNT = sql`CAST(SPLIT(shard, '/')[SAFE_OFFSET(1)] AS INT64)`;

/** What `status` shows of a job. */
export async function jobStatus(session: Session, job: string): Promise<JobStatus> {
  const { names } = session;
  const syncRun = tableId(names, "ops", "sync_run");
  const [lastRun] = await lastRuns(session, job, 1);
  const count = Number((lastRun?.shard ?? "0/1").split("/")[1]);
  const lastPass = session.rows<RunRow>(sql`
    SELECT ${runColumns} FROM ${syncRun} WHERE job = ${job} AND ${SHARD_COUNT} = ${count}
    QUALIFY ROW_NUMBER() OVER (PARTITION BY ${SHARD_INDEX} ORDER BY started_at DESC, run_id) = 1
    ORDER BY ${SHARD_INDEX}`);
  // A pass of several shards is as old as the shard that succeeded longest ago.
  const success = session.rows<{ at: string | null }>(sql`
    SELECT MAX(at) AS at FROM (
      SELECT MIN(at) AS at FROM (
        SELECT ${SHARD_COUNT} AS shards, MAX(finished_at) AS at FROM ${syncRun}
        WHERE job = ${job} AND status = 'succeeded' GROUP BY shard) AS s
      GROUP BY shards HAVING COUNT(*) = shards) AS whole`);
  const rejects = session.rows<{ code: string; count: number }>(sql`
    SELECT code, COUNT(*) AS count FROM ${tableId(names, "data", "reject")}
    WHERE job = ${job} AND resolved_at IS NULL GROUP BY code ORDER BY code`);
  const coverage = readCoverage(session, job);
  const holders = readHolders(session, job);
  return {
    job,
    lastRun: lastRun ?? null,
    lastPass: (await lastPass).map(pastRunOf),
    lastSuccessAt: (await success)[0]?.at ?? null,
    coverage: await coverage,
    openRejects: Object.fromEntries((await rejects).map((row) => [row.code, row.count])),
    holders: await holders,
  };
}

/**
 * The newest coverage that speaks of the whole input: the sum over the newest row of each shard, of that number of shards
 * of which all have one, and whose oldest is the newest. Where there is none, the shards of the last run's number.
 */
async function readCoverage(session: Session, job: string): Promise<JobStatus["coverage"]> {
  const table = tableId(session.names, "ops", "input_coverage");
  const [coverage] = await session.rows<NonNullable<JobStatus["coverage"]>>(sql`
    WITH newest AS (
      SELECT *, ${SHARD_COUNT} AS shards FROM ${table}
      WHERE job = ${job} AND source = (SELECT source FROM ${table} WHERE job = ${job} ORDER BY _synced_at DESC LIMIT 1)
      QUALIFY ROW_NUMBER() OVER (PARTITION BY shard ORDER BY _synced_at DESC) = 1),
    summed AS (
      SELECT source, shards, SUM(input_rows) AS inputRows, SUM(answered) AS answered, SUM(matched) AS matched,
        SUM(unmatched) AS unmatched, SUM(rejected) AS rejected, SUM(due) AS due, MIN(oldest_answer_at) AS oldestAnswerAt,
        COUNT(*) AS shardsCounted, MIN(_synced_at) AS first_at, MAX(_synced_at) AS last_at
      FROM newest GROUP BY source, shards)
    SELECT source, inputRows, answered, matched, unmatched, rejected, due, oldestAnswerAt, shards, shardsCounted FROM summed
    ORDER BY shardsCounted = shards DESC, IF(shardsCounted = shards, first_at, last_at) DESC LIMIT 1`);
  return coverage ?? null;
}

/** The view `table_freshness`. */
export async function tableFreshness(session: Session): Promise<readonly TableFreshness[]> {
  return session.rows<TableFreshness>(sql`
    SELECT table_name AS tableName, last_success_at AS lastSuccessAt, last_changed_at AS lastChangedAt,
      safe_until AS safeUntil
    FROM ${tableId(session.names, "ops", "table_freshness")} ORDER BY table_name`);
}
