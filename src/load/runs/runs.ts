import { type RawBuilder, sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import { OWN_LIMITS } from "../../errors.ts";
import type { Db } from "../db/db.ts";
import { CLOCK, NOW } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { CounterDelta } from "../ledger/ledger.ts";
import type { Coverage } from "../lookups/selection.ts";
import type { RunRef } from "./fence.ts";
import { counterNames, type RunCounter } from "../../schemas/ops.ts";

/** True if a run did everything that it was allowed to: it succeeded, or ended at a cap or budget of the user. */
export function isSuccess(run: {
  readonly status: string;
  readonly limited_by?: string | null | undefined;
}): boolean {
  return (
    run.status === "succeeded" ||
    (run.status === "limited" && OWN_LIMITS.some((own) => own === run.limited_by))
  );
}

/** {@link isSuccess} for rows of `sync_run`. */
export const IS_SUCCESS: RawBuilder<boolean> = sql<boolean>`(status = 'succeeded'
  OR status = 'limited' AND limited_by = ANY(${[...OWN_LIMITS]}::text[]))`;

export interface RunEnd {
  readonly status: "succeeded" | "failed" | "limited" | "skipped" | "interrupted";
  readonly limitedBy: string | null;
  readonly error: string | null;
  /** Final values, which replace the totals of the commits. */
  readonly counters: Readonly<Record<RunCounter, number>>;
  /** Result tables that are fresh after a success. */
  readonly tables: readonly string[];
}

export const noCounts = Object.fromEntries(counterNames.map((name) => [name, 0])) as Record<
  RunCounter,
  number
>;

const keyOf = ({ runId, job, shard }: RunRef) => ({ run_id: runId, job, shard });

/** Records the start of a job. A resumed run resets its totals; its calls stay in the ledger. */
export async function beginRun(db: Db, run: RunRef): Promise<void> {
  const ended = { limited_by: null, finished_at: null, error: null };
  const begun = {
    ...noCounts,
    ...ended,
    status: "running",
    started_at: NOW,
    records_due: 0,
    _synced_at: NOW,
  };
  return db.transaction(run, async (session) => {
    const insert = session.query
      .insertInto("ops.sync_run")
      .values({ ...begun, ...keyOf(run), job_type: run.jobType });
    await session.change(
      insert.onConflict((clash) => clash.columns(["run_id", "job", "shard"]).doUpdateSet(begun)),
    );
  });
}

/** Records what a selection found, for a run that is killed, and adds the rows that it wrote. */
export async function recordFound(
  db: Db,
  run: RunRef,
  { rows_written = 0, ...found }: CounterDelta & { readonly records_due: number },
): Promise<void> {
  await db.transaction(run, async (session) => {
    const update = session.query
      .updateTable("ops.sync_run")
      .set((row) => ({ ...found, rows_written: row("rows_written", "+", rows_written), _synced_at: NOW }));
    await session.change(update.where((row) => row.and(keyOf(run))));
  });
}

/** Reads the counters that the reading and the commits of a run have recorded. */
export async function readCounters(db: Db, run: RunRef): Promise<CounterDelta> {
  const select = db.query.selectFrom("ops.sync_run").select(counterNames);
  const [row] = await db.rows(select.where((where) => where.and(keyOf(run))));
  return row ?? {};
}

export async function endRun(
  db: Db,
  run: RunRef,
  end: RunEnd,
  coverage: Coverage | null = null,
): Promise<void> {
  crashPoint("before_end");
  const { status, limitedBy, error, counters } = end;
  await db.transaction(run, async (session) => {
    const update = session.query
      .updateTable("ops.sync_run")
      .set({ ...counters, status, limited_by: limitedBy, error, finished_at: CLOCK, _synced_at: CLOCK });
    await session.change(update.where((row) => row.and(keyOf(run))));
    if (coverage) await writeCoverage(session, run, coverage);
    if (!isSuccess({ status, limited_by: limitedBy })) return;
    // Serializes shards that end at the same time, which would not see each other.
    await session.rows(sql`SELECT FROM ${session.table("lookup_job")} WHERE job = ${run.job} FOR UPDATE`);
    const at = await readLastSuccess(session, run.job);
    if (at === null) return;
    await session.change(sql`
      INSERT INTO ${session.table("table_load")} AS t
        (table_name, job, last_success_at, last_changed_at, _synced_at, _run_id)
      SELECT name, ${run.job}, ${at}::timestamptz, NULL, now(), ${run.runId}
      FROM unnest(${[...end.tables]}::text[]) AS u(name)
      ON CONFLICT (table_name, job) DO UPDATE SET
        last_success_at = greatest(t.last_success_at, excluded.last_success_at), _synced_at = now(), _run_id = excluded._run_id`);
  });
  crashPoint("after_end");
}

/** End of a job's last success ({@link isSuccess}); with shards, the oldest of theirs. Null before the first one of all shards. */
export async function readLastSuccess(session: Session, job: string): Promise<string | null> {
  const [at = null] = await session.pluck<string | null>(sql`
    SELECT max(at) FROM (
      SELECT min(at) AS at FROM (
        SELECT split_part(shard, '/', 2)::bigint AS shards, max(finished_at) AS at FROM ${session.table("sync_run")}
        WHERE job = ${job} AND ${IS_SUCCESS} GROUP BY shard) AS s
      GROUP BY shards HAVING count(*) = shards) AS whole`);
  return at;
}

async function writeCoverage(session: Session, run: RunRef, coverage: Coverage): Promise<void> {
  const { source, inputRows, answered, matched, unmatched, rejected, due, oldestAnswerAt } = coverage;
  const counts = { input_rows: inputRows, answered, matched, unmatched, rejected, due };
  const row = { ...counts, oldest_answer_at: oldestAnswerAt, _synced_at: NOW };
  const insert = session.query.insertInto("ops.input_coverage").values({ ...keyOf(run), source, ...row });
  await session.change(
    insert.onConflict((clash) => clash.columns(["run_id", "job", "shard", "source"]).doUpdateSet(row)),
  );
}
