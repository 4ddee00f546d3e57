import type pg from "pg";
import { LockLostError } from "../../errors.ts";
import type { RunRef } from "../ledger/books.ts";
import { fence, requireLock, sessionName } from "../runs/fence.ts";
import { quoteLiteral, type SchemaNames } from "./names.ts";
import { inTransaction, type Session } from "./session.ts";

/** Where transactions of a run are made. */
export interface RunPlace {
  readonly pool: pg.Pool;
  /** A connection of its own for the lock, which work never holds up. */
  readonly lockPool: pg.Pool;
  readonly names: SchemaNames;
  /** `_run_id` of the rows, where they are another run's than the one that holds the lock. */
  readonly rowsRunId?: string;
}

/**
 * Everything that is done for a run goes through here: one transaction in the owner's name that ends with the fence.
 * Throws a LockLostError when the lock is lost, also where that showed as a session that somebody ended.
 */
export async function inRunTransaction<Result>(
  place: RunPlace,
  run: RunRef,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  const { pool, names, rowsRunId = run.runId } = place;
  try {
    return await inTransaction(
      pool,
      async (session) => {
        // The fence alone would do, but who has lost the lock shouldn't even stand in the new owner's way.
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
    throw (error instanceof LockLostError ? null : await findLoss(place, run)) ?? error;
  }
}

/** Waits for a takeover under way, and tells whether the lock is lost; null also where the warehouse doesn't answer. */
async function findLoss({ lockPool, names }: RunPlace, run: RunRef): Promise<LockLostError | null> {
  try {
    await inTransaction(lockPool, (session) => fence(session, names, run));
    return null;
  } catch (error) {
    return error instanceof LockLostError ? error : null;
  }
}
