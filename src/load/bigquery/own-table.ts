import { randomBytes } from "node:crypto";
import type { RunRef } from "../warehouse.ts";
import { requireLock } from "./run-transaction.ts";
import type { Session } from "./session.ts";
import { dropTable, tablesNamed } from "./staging.ts";

/**
 * Name of a new staging table of a run, after those were dropped that its predecessors left under the same prefix: whose a
 * table is, its epoch tells, so that who has lost the lock drops nothing of its successor. Throws a LockLostError for one that
 * knows it no better.
 */
export async function ownTable(session: Session, run: RunRef, prefix: string): Promise<string> {
  await requireLock(session, run);
  for (const name of await tablesNamed(session, prefix)) {
    if (Number(name.slice(prefix.length).split("_")[0]) <= run.epoch) await dropTable(session, name);
  }
  return `${prefix}${run.epoch}_${randomBytes(6).toString("hex")}`;
}
