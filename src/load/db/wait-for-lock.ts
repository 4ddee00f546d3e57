import { type RawBuilder, sql } from "kysely";
import { codeOf, StopRunError } from "../../errors.ts";
import type { Session } from "./session.ts";

/** A lock that other processes may hold. Never an advisory lock, which every role of the database can take. */
export interface LockWait {
  /** Statement that takes the lock until the end of the transaction; readers have no right to it. */
  readonly take: RawBuilder<unknown>;
  /** Query for the `pid` of the sessions that hold it. */
  readonly holders: RawBuilder<unknown>;
  /** Intention, for the message: `migrating the warehouse`. */
  readonly purpose: string;
  /** Code of the error at the end of the wait. */
  readonly code?: string;
  readonly timeout?: string;
}

/** SQLSTATE of a lock wait that timed out. */
const LOCK_NOT_AVAILABLE = "55P03";

/** Takes a lock; a StopRunError names the session that still holds it after a time. */
export async function waitForLock(
  session: Session,
  { take, holders, purpose, code = "lock_held", timeout = "30s" }: LockWait,
): Promise<void> {
  await session.client.query(`SAVEPOINT lock_wait; SET LOCAL lock_timeout = '${timeout}'`);
  try {
    await session.rows(take);
  } catch (error) {
    if (codeOf(error) !== LOCK_NOT_AVAILABLE) throw error;
    await session.client.query("ROLLBACK TO SAVEPOINT lock_wait");
    const found = await session.rows<{ pid: number; role: string; name: string | null }>(sql`
      SELECT pid, usename AS role, application_name AS name FROM pg_catalog.pg_stat_activity
      WHERE pid IN (${holders}) AND pid <> pg_backend_pid() ORDER BY pid`);
    const who = found.map(({ pid, role, name }) => `${pid} (role ${role}, application ${name ?? "unknown"})`);
    throw new StopRunError(
      code,
      `A lock for ${purpose} was held for ${timeout} by ${who.length === 0 ? "another session" : `session ${who.join(", ")}`}. ` +
        "If that process isn't working, end its session with `SELECT pg_terminate_backend(PID)`, and run again.",
      { cause: error },
    );
  }
  await session.client.query("SET LOCAL lock_timeout = 0; RELEASE SAVEPOINT lock_wait");
}

/** Lock of a table of the state or ops schema, besides its readers. */
export function tableLock(schema: string, table: string): Pick<LockWait, "take" | "holders"> {
  const name = sql.id(schema, table);
  return {
    take: sql`LOCK TABLE ${name} IN SHARE ROW EXCLUSIVE MODE`,
    holders: sql`SELECT l.pid FROM pg_catalog.pg_locks AS l
      JOIN pg_catalog.pg_class AS c ON c.oid = l.relation JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      WHERE l.granted AND n.nspname = ${schema} AND c.relname = ${table} AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
        AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`,
  };
}
