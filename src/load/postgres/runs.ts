import { sql } from "kysely";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";
import { tablesWrittenBy } from "../tables-written.ts";
import type {
  Coverage,
  JobStatus,
  LookupSpec,
  PastRun,
  RunEnd,
  RunRef,
  TableFreshness,
} from "../warehouse.ts";
import { type SchemaNames, tableId } from "./names.ts";
import { type PassCheckpoint, writeCheckpoint } from "./pass-checkpoint.ts";
import type { Session } from "./session.ts";

const counterNames = Object.keys(runCounters) as RunCounter[];
const counterList = sql.join(counterNames.map((name) => sql.id(name)));

/** A run without a sign of life for this long has crashed. */
const CRASHED_AFTER = "15 minutes";

/** Notes a job's start; closes runs of the job that a crash left open, and returns their run ids. */
export async function beginRun(session: Session, names: SchemaNames, run: RunRef): Promise<void> {
  const syncRun = tableId(names, "ops", "sync_run");
  await session.change(sql`
    UPDATE ${syncRun} SET status = 'failed', finished_at = now(), _synced_at = now(),
      error = 'The process ended without closing this run.'
    WHERE job = ${run.job} AND shard = ${run.shard} AND status = 'running'
      AND _synced_at < now() - ${CRASHED_AFTER}::interval`);
  const zeros = sql.join(counterNames.map(() => sql`0`));
  await session.change(sql`
    INSERT INTO ${syncRun} (run_id, job, shard, job_type, status, limited_by, started_at, finished_at, ${counterList},
      records_due, safe_until, error, _synced_at)
    VALUES (${run.runId}, ${run.job}, ${run.shard}, ${run.jobType}, 'running', NULL, now(), NULL, ${zeros}, 0, now(), NULL, now())
    ON CONFLICT (run_id, job, shard) DO UPDATE SET status = 'running', limited_by = NULL, started_at = now(),
      finished_at = NULL, safe_until = now(), error = NULL, _synced_at = now()`);
}

/** Notes how many rows are due. */
export async function recordDue(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  due: number,
): Promise<void> {
  await session.change(sql`
    UPDATE ${tableId(names, "ops", "sync_run")} SET records_due = ${due}, _synced_at = now()
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}`);
}

/** Notes a job's end; moves its checkpoint when nothing is left. */
export async function endRun(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  ended: {
    readonly end: RunEnd;
    readonly coverage: Coverage | null;
    readonly checkpoint: PassCheckpoint | null;
  },
): Promise<void> {
  const { end, coverage, checkpoint } = ended;
  const counters = counterNames.map((name) => sql`${sql.id(name)} = ${end.counters[name]}`);
  await session.change(sql`
    UPDATE ${tableId(names, "ops", "sync_run")} SET status = ${end.status}, limited_by = ${end.limitedBy},
      error = ${end.error}, finished_at = clock_timestamp(), _synced_at = clock_timestamp(), safe_until = NULL,
      ${sql.join(counters)}
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}`);
  if (coverage) await writeCoverage(session, names, run, coverage);
  if (end.status !== "succeeded" || end.counters.records_remaining > 0) return;
  await session.change(sql`
    INSERT INTO ${tableId(names, "ops", "table_load")} (table_name, job, last_success_at, last_changed_at, _synced_at, _run_id)
    SELECT name, ${run.job}, now(), NULL, now(), ${run.runId} FROM unnest(${[...tablesWrittenBy(run.jobType)]}::text[]) AS u(name)
    ON CONFLICT (table_name, job) DO UPDATE SET last_success_at = now(), _synced_at = now(), _run_id = excluded._run_id`);
  // A row that waits may be one that the cursor has passed: it has to be looked at again.
  if (checkpoint && coverage && end.counters.records_waiting === 0) {
    await writeCheckpoint(
      session,
      names,
      { job: run.job, source: coverage.source, runId: run.runId },
      checkpoint,
    );
  }
}

async function writeCoverage(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  coverage: Coverage,
): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(names, "ops", "input_coverage")} (run_id, job, shard, source, input_rows, answered, matched,
      unmatched, rejected, due, oldest_answer_at, _synced_at)
    SELECT ${run.runId}, ${run.job}, ${run.shard}, ${coverage.source}, ${coverage.inputRows}, ${coverage.answered},
      ${coverage.matched}, ${coverage.unmatched}, ${coverage.rejected}, ${coverage.due}, min(answered_at), now()
    FROM ${tableId(names, "data", "lookup_state")} WHERE job = ${run.job} AND source = ${coverage.source}
    ON CONFLICT (run_id, job, shard, source) DO UPDATE SET input_rows = excluded.input_rows,
      answered = excluded.answered, matched = excluded.matched, unmatched = excluded.unmatched,
      rejected = excluded.rejected, due = excluded.due, oldest_answer_at = excluded.oldest_answer_at, _synced_at = now()`);
}

type RunRow = Readonly<Record<RunCounter, number>> & {
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

function pastRunOf(row: RunRow): PastRun {
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

/** The last runs of a job, newest first. */
export async function lastRuns(
  session: Session,
  names: SchemaNames,
  job: string,
  limit: number,
): Promise<readonly PastRun[]> {
  const rows = await session.rows<RunRow>(sql`
    SELECT run_id, job, shard, job_type, status, limited_by, started_at, finished_at, records_due, error, ${counterList}
    FROM ${tableId(names, "ops", "sync_run")} WHERE job = ${job} ORDER BY started_at DESC, run_id LIMIT ${limit}`);
  return rows.map(pastRunOf);
}

/** What `status` shows of a job. */
export async function jobStatus(session: Session, names: SchemaNames, job: string): Promise<JobStatus> {
  const [lastRun] = await lastRuns(session, names, job, 1);
  const [success] = await session.rows<{ at: string | null }>(sql`
    SELECT max(finished_at) AS at FROM ${tableId(names, "ops", "sync_run")} WHERE job = ${job} AND status = 'succeeded'`);
  const [coverage] = await session.rows<Coverage & { oldestAnswerAt: string | null }>(sql`
    SELECT source, input_rows AS "inputRows", answered, matched, unmatched, rejected, due,
      oldest_answer_at AS "oldestAnswerAt"
    FROM ${tableId(names, "ops", "input_coverage")} WHERE job = ${job} ORDER BY _synced_at DESC LIMIT 1`);
  const rejects = await session.rows<{ code: string; count: number }>(sql`
    SELECT code, count(*) AS count FROM ${tableId(names, "data", "reject")}
    WHERE job = ${job} AND resolved_at IS NULL GROUP BY code ORDER BY code`);
  return {
    job,
    lastRun: lastRun ?? null,
    lastSuccessAt: success?.at ?? null,
    coverage: coverage ?? null,
    openRejects: Object.fromEntries(rejects.map((row) => [row.code, row.count])),
  };
}

/** The view `table_freshness`. */
export async function tableFreshness(
  session: Session,
  names: SchemaNames,
): Promise<readonly TableFreshness[]> {
  return session.rows<TableFreshness>(sql`
    SELECT table_name AS "tableName", last_success_at AS "lastSuccessAt", last_changed_at AS "lastChangedAt",
      safe_until AS "safeUntil"
    FROM ${tableId(names, "ops", "table_freshness")} ORDER BY table_name`);
}

/** Drops work tables of runs that are over; a running run's stays. */
export async function dropOrphanedWorkTables(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
): Promise<void> {
  const rows = await session.rows<{ name: string; run_id: string | null }>(sql`
    SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS run_id
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ${names.data} AND c.relkind = 'r' AND c.relname LIKE 'lookup\\_work\\_%'`);
  for (const row of rows) {
    const [job, runId] = JSON.parse(row.run_id ?? "[]") as [string?, string?];
    if (job !== spec.job) continue;
    const [running] = await session.rows(sql`
      SELECT FROM ${tableId(names, "ops", "sync_run")}
      WHERE run_id = ${runId ?? ""} AND job = ${spec.job} AND status = 'running'`);
    if (!running) await session.change(sql`DROP TABLE IF EXISTS ${tableId(names, "data", row.name)}`);
  }
}
