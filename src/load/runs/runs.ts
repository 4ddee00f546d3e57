import type { Db } from "../db/db.ts";
import { sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";
import type { PassCheckpoint } from "../due/pass-cursor.ts";
import type { Coverage, JobStatus, PastRun, RunEnd, RunRef, TableFreshness } from "../lookup.ts";
import { readHolders } from "./job-lock.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import { writeCheckpoint } from "../due/checkpoint-sql.ts";
import type { Session } from "../db/session.ts";

const counterNames = Object.keys(runCounters) as RunCounter[];
const counterList = sql.join(counterNames.map((name) => sql.id(name)));

/** Shard count in a column `shard`. */
const SHARD_COUNT = sql`split_part(shard, '/', 2)::bigint`;

/** Records the start of a job. A resumed run resets its totals; its calls stay in the ledger. */
export async function beginRun(db: Db, run: RunRef): Promise<void> {
  const { names } = db;
  return db.transaction(run, async (session) => {
    const syncRun = tableId(names, "sync_run");
    const zeros = sql.join(counterNames.map(() => sql`0`));
    await session.change(sql`
    INSERT INTO ${syncRun} (run_id, job, shard, job_type, status, limited_by, started_at, finished_at, ${counterList},
      records_due, error, _synced_at)
    VALUES (${run.runId}, ${run.job}, ${run.shard}, ${run.jobType}, 'running', NULL, now(), NULL, ${zeros}, 0, NULL, now())
    ON CONFLICT (run_id, job, shard) DO UPDATE SET status = 'running', limited_by = NULL, started_at = now(),
      finished_at = NULL, records_due = 0, error = NULL, _synced_at = now(),
      ${sql.join(counterNames.map((name) => sql`${sql.id(name)} = 0`))}`);
  });
}

/** Records the number of due rows. */
export async function recordDue(db: Db, run: RunRef, due: number): Promise<void> {
  const { names } = db;
  return db.transaction(run, async (session) => {
    await session.change(sql`
    UPDATE ${tableId(names, "sync_run")} SET records_due = ${due}, _synced_at = now()
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}`);
  });
}

/** Records the end of a job; advances its checkpoint if nothing remains. */
export async function endRun(
  db: Db,
  run: RunRef,
  end: RunEnd,
  coverage: Coverage | null = null,
  checkpoint: PassCheckpoint | null = null,
): Promise<void> {
  crashPoint("before_checkpoint");
  await db.transaction(run, (session) => writeEnd(session, db.names, run, { end, coverage, checkpoint }));
  crashPoint("after_checkpoint");
}

async function writeEnd(
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
    UPDATE ${tableId(names, "sync_run")} SET status = ${end.status}, limited_by = ${end.limitedBy},
      error = ${end.error}, finished_at = clock_timestamp(), _synced_at = clock_timestamp(),
      ${sql.join(counters)}
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}`);
  if (coverage) await writeCoverage(session, names, run, coverage);
  if (end.status !== "succeeded" || end.counters.records_remaining > 0) return;
  const wholeAt = run.shard === "0/1" ? session.now : await wholePassAt(session, names, run);
  if (wholeAt !== null) {
    await session.change(sql`
      INSERT INTO ${tableId(names, "table_load")} AS t
        (table_name, job, last_success_at, last_changed_at, _synced_at, _run_id)
      SELECT name, ${run.job}, ${wholeAt}::timestamptz, NULL, now(), ${run.runId}
      FROM unnest(${[...end.tables]}::text[]) AS u(name)
      ON CONFLICT (table_name, job) DO UPDATE SET
        last_success_at = greatest(t.last_success_at, excluded.last_success_at), _synced_at = now(), _run_id = excluded._run_id`);
  }
  // The cursor may have passed a waiting row, which must be read again.
  if (checkpoint && coverage && end.counters.records_waiting === 0) {
    await writeCheckpoint(
      session,
      names,
      { job: run.job, source: coverage.source, runId: run.runId },
      checkpoint,
    );
  }
}

/** Oldest complete pass among all shards of this count; null until each shard has one. */
async function wholePassAt(session: Session, names: SchemaNames, run: RunRef): Promise<string | null> {
  // Serializes shards that end at the same time, which would not see each other.
  await session.rows(sql`SELECT FROM ${tableId(names, "job_parameters")} WHERE job = ${run.job} FOR UPDATE`);
  const [pass] = await session.rows<{ at: string }>(sql`
    SELECT min(at)::text AS at FROM (
      SELECT shard, max(finished_at) AS at FROM ${tableId(names, "sync_run")}
      WHERE job = ${run.job} AND status = 'succeeded' AND records_remaining = 0
        AND split_part(shard, '/', 2) = split_part(${run.shard}, '/', 2)
      GROUP BY shard) AS s
    HAVING count(*) = split_part(${run.shard}, '/', 2)::bigint`);
  return pass?.at ?? null;
}

async function writeCoverage(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  coverage: Coverage,
): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(names, "input_coverage")} (run_id, job, shard, source, input_rows, answered, matched,
      unmatched, rejected, due, oldest_answer_at, _synced_at)
    SELECT ${run.runId}, ${run.job}, ${run.shard}, ${coverage.source}, ${coverage.inputRows}, ${coverage.answered},
      ${coverage.matched}, ${coverage.unmatched}, ${coverage.rejected}, ${coverage.due}, min(answered_at), now()
    FROM ${tableId(names, "lookup_state")} WHERE job = ${run.job} AND source = ${coverage.source}
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

const runColumns = sql`run_id, job, shard, job_type, status, limited_by, started_at, finished_at, records_due, error,
  ${sql.join(counterNames.map((name) => sql.id(name)))}`;

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

/** Last runs of a job, newest first. */
export function lastRuns(db: Db, job: string, limit: number): Promise<readonly PastRun[]> {
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
        WHERE job = ${job} AND status = 'succeeded' GROUP BY shard) AS s
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
