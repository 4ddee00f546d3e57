import { type RawBuilder, sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import { OWN_LIMITS } from "../../errors.ts";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import type { CounterDelta } from "../ledger/ledger.ts";
import type { Coverage } from "../lookups/selection.ts";
import type { RunRef } from "./fence.ts";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";

/** True if a run did everything that it was allowed to: it succeeded, or ended at a cap or budget of the user. */
export function isSuccess(run: {
  readonly status: string;
  readonly limitedBy?: string | null | undefined;
}): boolean {
  return (
    run.status === "succeeded" ||
    (run.status === "limited" && OWN_LIMITS.some((own) => own === run.limitedBy))
  );
}

/** {@link isSuccess} for rows of `sync_run`. */
export const IS_SUCCESS: RawBuilder<boolean> = sql<boolean>`(status = 'succeeded'
  OR status = 'limited' AND limited_by = ANY(${[...OWN_LIMITS]}::text[]))`;

/** End of a job. */
export interface RunEnd {
  readonly status: "succeeded" | "failed" | "limited" | "skipped" | "interrupted";
  readonly limitedBy: string | null;
  readonly error: string | null;
  /** Final values, which replace the totals of the commits. */
  readonly counters: Readonly<Record<RunCounter, number>>;
  /** Result tables that are fresh after a success. */
  readonly tables: readonly string[];
}

const counterNames = Object.keys(runCounters) as RunCounter[];
const counterList = sql.join(counterNames.map((name) => sql.id(name)));

/** Records the start of a job. A resumed run resets its totals; its calls stay in the ledger. */
export async function beginRun(db: Db, run: RunRef): Promise<void> {
  return db.transaction(run, async (session) => {
    const syncRun = session.table("sync_run");
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

/** Records what a selection found, for a run that is killed, and adds the rows that it wrote. */
export async function recordFound(
  db: Db,
  run: RunRef,
  found: CounterDelta & { readonly records_due: number },
): Promise<void> {
  const { rows_written = 0, ...counted } = found;
  const set = Object.entries(counted).map(([name, value]) => sql`${sql.id(name)} = ${value}`);
  await db.transaction(run, async (session) => {
    await session.change(sql`
    UPDATE ${session.table("sync_run")} SET ${sql.join(set)}, rows_written = rows_written + ${rows_written},
      _synced_at = now()
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}`);
  });
}

/** Reads the counters that the reading and the commits of a run have recorded. */
export async function readCounters(db: Db, run: RunRef): Promise<CounterDelta> {
  const [row] = await db.rows<CounterDelta>(sql`
    SELECT ${counterList} FROM ${db.table("sync_run")}
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}`);
  return row ?? {};
}

/** Records the end of a job. */
export async function endRun(
  db: Db,
  run: RunRef,
  end: RunEnd,
  coverage: Coverage | null = null,
): Promise<void> {
  crashPoint("before_end");
  await db.transaction(run, (session) => writeEnd(session, run, end, coverage));
  crashPoint("after_end");
}

async function writeEnd(
  session: Session,
  run: RunRef,
  end: RunEnd,
  coverage: Coverage | null,
): Promise<void> {
  const counters = counterNames.map((name) => sql`${sql.id(name)} = ${end.counters[name]}`);
  const [ended] = await session.rows<{ at: string }>(sql`
    UPDATE ${session.table("sync_run")} SET status = ${end.status}, limited_by = ${end.limitedBy},
      error = ${end.error}, finished_at = clock_timestamp(), _synced_at = clock_timestamp(),
      ${sql.join(counters)}
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard} RETURNING finished_at::text AS at`);
  if (coverage) await writeCoverage(session, run, coverage);
  if (!isSuccess(end)) return;
  const wholeAt = run.shard === "0/1" ? (ended?.at ?? null) : await wholePassAt(session, run);
  if (wholeAt !== null) {
    await session.change(sql`
      INSERT INTO ${session.table("table_load")} AS t
        (table_name, job, last_success_at, last_changed_at, _synced_at, _run_id)
      SELECT name, ${run.job}, ${wholeAt}::timestamptz, NULL, now(), ${run.runId}
      FROM unnest(${[...end.tables]}::text[]) AS u(name)
      ON CONFLICT (table_name, job) DO UPDATE SET
        last_success_at = greatest(t.last_success_at, excluded.last_success_at), _synced_at = now(), _run_id = excluded._run_id`);
  }
}

/** Oldest of the last successes of all shards of this count; null until each shard has one. */
async function wholePassAt(session: Session, run: RunRef): Promise<string | null> {
  // Serializes shards that end at the same time, which would not see each other.
  await session.rows(sql`SELECT FROM ${session.table("lookup_job")} WHERE job = ${run.job} FOR UPDATE`);
  const [pass] = await session.rows<{ at: string }>(sql`
    SELECT min(at)::text AS at FROM (
      SELECT shard, max(finished_at) AS at FROM ${session.table("sync_run")}
      WHERE job = ${run.job} AND ${IS_SUCCESS}
        AND split_part(shard, '/', 2) = split_part(${run.shard}, '/', 2)
      GROUP BY shard) AS s
    HAVING count(*) = split_part(${run.shard}, '/', 2)::bigint`);
  return pass?.at ?? null;
}

async function writeCoverage(session: Session, run: RunRef, coverage: Coverage): Promise<void> {
  await session.change(sql`
    INSERT INTO ${session.table("input_coverage")} (run_id, job, shard, source, input_rows, answered, matched,
      unmatched, rejected, due, oldest_answer_at, _synced_at)
    VALUES (${run.runId}, ${run.job}, ${run.shard}, ${coverage.source}, ${coverage.inputRows}, ${coverage.answered},
      ${coverage.matched}, ${coverage.unmatched}, ${coverage.rejected}, ${coverage.due}, ${coverage.oldestAnswerAt}, now())
    ON CONFLICT (run_id, job, shard, source) DO UPDATE SET input_rows = excluded.input_rows,
      answered = excluded.answered, matched = excluded.matched, unmatched = excluded.unmatched,
      rejected = excluded.rejected, due = excluded.due, oldest_answer_at = excluded.oldest_answer_at, _synced_at = now()`);
}
