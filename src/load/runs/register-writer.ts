import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { StopRunError } from "../../errors.ts";
import { runCounters, type Writer, writers } from "../../schemas/ops.ts";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

const counterNames = Object.keys(runCounters);

/** Time between the registration of a writer and its transaction; longer only if the process was suspended. */
const REGISTRATION_LIFE = "30 seconds";

/**
 * Runs a command's transaction, registered in `sync_run` in a transaction of its own before: until it has committed,
 * `safe_until` stays before its start.
 */
export async function asWriter<Result>(
  db: Db,
  writer: Writer,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  const runId = randomUUID();
  const syncRun = tableId(db.names, "sync_run");
  const end = (session: Session, status: "succeeded" | "failed") =>
    session.change(sql`UPDATE ${syncRun} SET status = ${status}, finished_at = clock_timestamp(), _synced_at = clock_timestamp()
      WHERE run_id = ${runId} AND status <> 'failed'`);
  await db.transaction((session) =>
    session.change(sql`
      INSERT INTO ${syncRun} (run_id, job, shard, job_type, status, started_at, records_due, _synced_at,
        ${sql.join(counterNames.map((name) => sql.id(name)))})
      VALUES (${runId}, ${writer}, '0/1', ${writer}, 'running', now(), 0, now(), ${sql.join(counterNames.map(() => sql`0`))})
      ON CONFLICT DO NOTHING`),
  );
  try {
    return await db.transaction(async (session) => {
      // Whoever closes abandoned entries skips locked ones.
      const held = await session.rows(
        sql`SELECT FROM ${syncRun} WHERE run_id = ${runId} AND status <> 'failed' FOR UPDATE`,
      );
      if (held.length === 0) throw suspended(writer);
      const result = await work(session);
      await end(session, "succeeded");
      return result;
    });
  } catch (error) {
    // Report the error of the work; the next run closes an open entry.
    await db.transaction((session) => end(session, "failed")).catch(() => {});
    throw error;
  }
}

function suspended(writer: Writer): StopRunError {
  return new StopRunError(
    "writer_suspended",
    `${writer}: this process was suspended before it could write, so another one closed its entry in sync_run. Nothing ` +
      "was changed; repeat the command.",
  );
}

/** Condition for the entry `r` of a command. */
export const isWriter = sql`r.job IN (${sql.join(writers.map((name) => sql.lit(name)))})`;

/** Condition for the entry `r` of a command whose process ended without closing it, unless its transaction has locked the row. */
export const isAbandonedWriter = sql`r.started_at NOT BETWEEN clock_timestamp() - interval ${sql.lit(REGISTRATION_LIFE)}
    AND clock_timestamp() + interval ${sql.lit(REGISTRATION_LIFE)}`;
