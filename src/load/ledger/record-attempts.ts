import type { Db } from "../db/db.ts";
import { giveBack } from "./give-back.ts";
import { addCounters, settleLedger } from "./ledger.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import type { Asker, RunRef } from "../runs/run-ref.ts";
import type { CounterDelta } from "./counters.ts";

/** Records the outcome of attempts without rows. Counters without an attempt are added at most once. */
export async function recordAttempts(
  db: Db,
  run: RunRef,
  entries: readonly Attempt[],
  counters: CounterDelta,
): Promise<void> {
  const { names } = db;
  await db.transaction(run, async (session) => {
    const settled = await settleLedger(session, names, run, entries);
    // Already recorded: the reply to that COMMIT was lost.
    if (entries.length > 0 && settled.size === 0) return;
    await giveBack(session, names, run, entries);
    await addCounters(session, names, run, counters);
  });
}

/** Records free calls made outside of job runs. */
export async function recordCalls(db: Db, asker: Asker, entries: readonly Attempt[]): Promise<void> {
  await db.transaction(async (session) => {
    await settleLedger(session, db.names, asker, entries);
  });
}
