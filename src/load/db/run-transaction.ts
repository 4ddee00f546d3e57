import type pg from "pg";
import { LockLostError } from "../../errors.ts";
import { fence, requireLock, sessionName } from "../runs/fence.ts";
import { quoteLiteral, type SchemaNames } from "./names.ts";
import { inTransaction, type Session } from "./session.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Connections and schemas of a run's transactions. */
export interface RunContext {
  readonly pool: pg.Pool;
  /** Connections reserved for locks, never blocked by work. */
  readonly lockPool: pg.Pool;
  readonly names: SchemaNames;
  /** `_run_id` of the rows, if it is not the run that holds the lock. */
  readonly rowsRunId?: string;
}

/**
 * Runs one transaction of a run, in a session named after the lock's owner; it ends with the fence.
 * Throws a LockLostError if the lock is lost, even if the error is a session ended by a takeover.
 */
export async function inRunTransaction<Result>(
  context: RunContext,
  run: RunRef,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  const { pool, names, rowsRunId = run.runId } = context;
  try {
    return await inTransaction(
      pool,
      async (session) => {
        // The fence would suffice; checking first keeps a former owner from blocking the new one.
        await requireLock(session, names, run);
        const result = await work(session);
        await fence(session, names, run);
        return result;
      },
      {
        settings: [
          `SET LOCAL application_name = ${quoteLiteral(sessionName(names, run))}`,
          // The default of `_run_id`.
          `SET LOCAL person_etl.run_id = ${quoteLiteral(rowsRunId)}`,
        ],
      },
    );
  } catch (error) {
    throw (error instanceof LockLostError ? null : await findLoss(context, run)) ?? error;
  }
}

/** Waits for a takeover in progress; returns the error if the lock is lost, null otherwise or without an answer. */
async function findLoss({ lockPool, names }: RunContext, run: RunRef): Promise<LockLostError | null> {
  try {
    await inTransaction(lockPool, (session) => fence(session, names, run));
    return null;
  } catch (error) {
    return error instanceof LockLostError ? error : null;
  }
}
