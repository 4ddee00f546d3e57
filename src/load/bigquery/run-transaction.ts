import { type RawBuilder, sql } from "kysely";
import { LockLostError } from "../../errors.ts";
import type { RunRef } from "../warehouse.ts";
import { abortMessage, isAborted } from "./failure.ts";
import { type DatasetNames, quoteLiteral, tableId } from "./names.ts";
import { NOW, type Session, type TransactionWork } from "./session.ts";

/**
 * Everything that is done for a run goes through here: one transaction that begins with the fence, in which {@link NOW} is the
 * moment of its start. Throws a LockLostError, with nothing done, when the lock is lost.
 */
export async function inRunTransaction<Row>(
  session: Session,
  run: RunRef,
  work: TransactionWork<Row>,
): Promise<Row[]> {
  try {
    return await session.transaction({ ...work, statements: [...fence(session, run), ...work.statements] });
  } catch (error) {
    throw isAborted(error, "lock_lost") ? lockLost(run) : error;
  }
}

/**
 * Changes the run's row of `job_lock`: a transaction that only read it would see a snapshot, and could commit after a
 * takeover; one that writes it conflicts with the takeover, and one of both is cancelled. So transactions of all runs come one
 * after the other, as they have to anyway: they change the same tables.
 */
export function fence({ names }: Session, run: RunRef): readonly RawBuilder<unknown>[] {
  return [
    sql`UPDATE ${tableId(names, "ops", "job_lock")} SET _synced_at = ${NOW} WHERE ${isHeldBy(run)}`,
    sql`IF @@row_count != 1 THEN RAISE USING MESSAGE = ${sql.raw(quoteLiteral(abortMessage("lock_lost")))}; END IF`,
  ];
}

/** Makes transactions that aren't a run's come one after the other too: all of them change the same row (see migrate.ts). */
export function oneAtATime(names: DatasetNames): RawBuilder<unknown> {
  return sql`UPDATE ${tableId(names, "ops", "job_lock")} SET _synced_at = ${NOW} WHERE job = ''`;
}

/** The run's row of `job_lock`, while it holds the lock. */
export function isHeldBy({ job, shard, epoch }: RunRef): RawBuilder<unknown> {
  return sql`job = ${job} AND shard = ${shard} AND epoch = ${epoch} AND released_at IS NULL`;
}

/** Throws a LockLostError unless the run holds its lock: for what needs no fence, but shouldn't be gone on with without it. */
export async function requireLock(session: Session, run: RunRef): Promise<void> {
  const held = await session.rows(
    sql`SELECT 1 AS held FROM ${tableId(session.names, "ops", "job_lock")} WHERE ${isHeldBy(run)}`,
  );
  if (held.length === 0) throw lockLost(run);
}

/** What ends a run that has lost its lock. */
export function lockLost(run: RunRef): LockLostError {
  return new LockLostError(
    `${run.job}: another process has taken the job over, so this one sends and writes nothing more. What it had ` +
      "committed before is kept; `status` shows who runs the job now.",
  );
}
