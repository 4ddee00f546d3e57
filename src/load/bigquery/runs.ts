import { type RawBuilder, sql } from "kysely";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";
import type { PassCheckpoint } from "../pass-checkpoint.ts";
import { tablesWrittenBy } from "../tables-written.ts";
import type { Coverage, PastRun, RunEnd, RunRef } from "../warehouse.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { inRunTransaction } from "./run-transaction.ts";
import { NOW, type Session } from "./session.ts";

const counterNames = Object.keys(runCounters) as RunCounter[];
const counterList = sql.join(counterNames.map((name) => sql.id(name)));

const isOf = (run: RunRef) => sql`run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}`;

/** Notes a job's start; a run that goes on under its id begins its books anew, its calls stay in the ledger. */
export async function beginRun(session: Session, run: RunRef): Promise<void> {
  const syncRun = tableId(session.names, "ops", "sync_run");
  const zeros = sql.join(counterNames.map(() => sql.raw("0")));
  await inRunTransaction(session, run, {
    statements: [
      sql`DELETE FROM ${syncRun} WHERE ${isOf(run)}`,
      sql`INSERT INTO ${syncRun} (run_id, job, shard, job_type, status, started_at, ${counterList}, records_due, safe_until,
          _synced_at)
        SELECT ${run.runId}, ${run.job}, ${run.shard}, ${run.jobType}, 'running', ${NOW}, ${zeros}, 0, ${NOW}, ${NOW}`,
    ],
  });
}

/** Notes how many rows are due. */
export async function recordDue(session: Session, run: RunRef, due: number): Promise<void> {
  await inRunTransaction(session, run, {
    statements: [
      sql`UPDATE ${tableId(session.names, "ops", "sync_run")} SET records_due = ${due}, _synced_at = ${NOW} WHERE ${isOf(run)}`,
    ],
  });
}

/** How a job has ended. */
export interface Ended {
  readonly end: RunEnd;
  readonly coverage: Coverage | null;
  readonly checkpoint: PassCheckpoint | null;
}

/** Notes a job's end; moves its checkpoint when nothing is left. */
export async function endRun(session: Session, run: RunRef, ended: Ended): Promise<void> {
  const { names } = session;
  const { end, coverage, checkpoint } = ended;
  const counters = counterNames.map((name) => sql`${sql.id(name)} = ${end.counters[name]}`);
  const isWhole = end.status === "succeeded" && end.counters.records_remaining === 0;
  // A row that waits may be one that the cursor has passed: it has to be looked at again.
  const moves = isWhole && checkpoint !== null && coverage !== null && end.counters.records_waiting === 0;
  await inRunTransaction(session, run, {
    declare: [sql`whole_at TIMESTAMP`],
    statements: [
      sql`UPDATE ${tableId(names, "ops", "sync_run")} SET status = ${end.status}, limited_by = ${end.limitedBy},
          error = ${end.error}, finished_at = ${NOW}, _synced_at = ${NOW}, safe_until = NULL, ${sql.join(counters)}
        WHERE ${isOf(run)}`,
      ...(coverage ? writeCoverage(names, run, coverage) : []),
      ...(isWhole ? noteSuccess(names, run) : []),
      ...(moves ? writeCheckpoint(names, run, coverage.source, checkpoint) : []),
    ],
  });
}

/** Since when every shard, of as many as this run's, has left nothing undone; null while one never has. */
function wholeSince(names: DatasetNames, run: RunRef): RawBuilder<unknown> {
  if (run.shard === "0/1") return sql`${NOW}`;
  const count = Number(run.shard.split("/")[1]);
  return sql`(SELECT IF(COUNT(*) = ${count}, MIN(at), NULL) FROM (
    SELECT shard, MAX(finished_at) AS at FROM ${tableId(names, "ops", "sync_run")}
    WHERE job = ${run.job} AND status = 'succeeded' AND records_remaining = 0
      AND SPLIT(shard, '/')[SAFE_OFFSET(1)] = ${String(count)}
    GROUP BY shard))`;
}

function noteSuccess(names: DatasetNames, run: RunRef): readonly RawBuilder<unknown>[] {
  const load = tableId(names, "ops", "table_load");
  const tables = [...tablesWrittenBy(run.jobType)];
  return [
    sql`SET whole_at = ${wholeSince(names, run)}`,
    sql`IF whole_at IS NOT NULL THEN
      UPDATE ${load} SET last_success_at = GREATEST(IFNULL(last_success_at, whole_at), whole_at), _synced_at = ${NOW},
        _run_id = ${run.runId} WHERE job = ${run.job} AND table_name IN UNNEST(${tables});
      INSERT INTO ${load} (table_name, job, last_success_at, last_changed_at, _synced_at, _run_id)
        SELECT name, ${run.job}, whole_at, NULL, ${NOW}, ${run.runId} FROM UNNEST(${tables}) AS name
        WHERE name NOT IN (SELECT table_name FROM ${load} WHERE job = ${run.job});
      END IF`,
  ];
}

function writeCoverage(names: DatasetNames, run: RunRef, coverage: Coverage): readonly RawBuilder<unknown>[] {
  const table = tableId(names, "ops", "input_coverage");
  return [
    sql`DELETE FROM ${table} WHERE ${isOf(run)} AND source = ${coverage.source}`,
    sql`INSERT INTO ${table} (run_id, job, shard, source, input_rows, answered, matched, unmatched, rejected, due,
        oldest_answer_at, _synced_at)
      SELECT ${run.runId}, ${run.job}, ${run.shard}, ${coverage.source}, ${coverage.inputRows}, ${coverage.answered},
        ${coverage.matched}, ${coverage.unmatched}, ${coverage.rejected}, ${coverage.due}, MIN(answered_at), ${NOW}
      FROM ${tableId(names, "data", "lookup_state")} WHERE job = ${run.job} AND source = ${coverage.source}`,
  ];
}

function writeCheckpoint(
  names: DatasetNames,
  run: RunRef,
  source: string,
  checkpoint: PassCheckpoint,
): readonly RawBuilder<unknown>[] {
  const table = tableId(names, "ops", "checkpoint");
  return [
    sql`DELETE FROM ${table} WHERE job = ${run.job} AND stream = ${source}`,
    sql`INSERT INTO ${table} (job, stream, cursor, updated_at, run_id, _synced_at)
      SELECT ${run.job}, ${source}, PARSE_JSON(${JSON.stringify(checkpoint)}), ${NOW}, ${run.runId}, ${NOW}`,
  ];
}

/** A row of `sync_run`. */
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

/** The columns of a {@link RunRow}. */
export const runColumns = sql`run_id, job, shard, job_type, status, limited_by, started_at, finished_at, records_due, error,
  ${counterList}`;

/** A run as the rest of the program knows it. */
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
    // The columns of the counters are those of the record's keys.
    counters: Object.fromEntries(counterNames.map((name) => [name, row[name]])) as Record<RunCounter, number>,
    error: row.error,
  };
}

/** The last runs of a job, newest first. */
export async function lastRuns(session: Session, job: string, limit: number): Promise<readonly PastRun[]> {
  const rows = await session.rows<RunRow>(sql`
    SELECT ${runColumns} FROM ${tableId(session.names, "ops", "sync_run")} WHERE job = ${job}
    ORDER BY started_at DESC, run_id LIMIT ${sql.raw(String(limit))}`);
  return rows.map(pastRunOf);
}
