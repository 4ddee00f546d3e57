import { setTimeout as delay } from "node:timers/promises";
import type { Warehouse } from "../../support/bound-load.ts";
import { tables } from "../../../src/schemas/registry.ts";
import { noteHeld } from "./nights.ts";

/** A row as the database shows it: every value as text (booleans `true` and `false`), or null. */
export type TextRow = Readonly<Record<string, string | null>>;

/** A migrated warehouse under test with the default schemas, and plain SQL on it. */
export interface Context {
  readonly warehouse: Warehouse;
  /** Runs a statement of the test; the session's time zone is UTC. */
  sql(text: string, params?: readonly unknown[]): Promise<readonly TextRow[]>;
  close(): Promise<void>;
}

/** Expression that changes whenever a row is rewritten, even with equal values. */
export const ROW_VERSION = "concat_ws(' ', ctid, xmin)";

/** Schemas of the warehouse under test. */
export const schemaNames = { data: "person_data", ops: "person_data_ops", state: "person_data_state" };

/** Empties our tables, creates an empty schema `crm` for inputs, and locks the tests' jobs. */
export async function clear(context: Context): Promise<void> {
  const deletes = tables.map((table) => `DELETE FROM ${schemaNames[table.schema]}.${table.name} WHERE true`);
  await context.sql([...deletes, "DROP SCHEMA IF EXISTS crm CASCADE", "CREATE SCHEMA crm"].join("; "));
  await writeLocks(context);
}

/** First value of the first row. */
export async function valueOf(context: Context, text: string): Promise<string | null> {
  const [row] = await context.sql(text);
  return Object.values(row ?? {})[0] ?? null;
}

/** First column of every row. */
export async function columnOf(context: Context, text: string): Promise<readonly (string | null)[]> {
  return (await context.sql(text)).map((row) => Object.values(row)[0] ?? null);
}

/** Waits until a session waits for a lock. */
export async function untilWaiting(context: Context): Promise<void> {
  const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  while ((await valueOf(context, waiting)) === "0") await delay(10);
}

/** Acquires the first lock of every job. */
async function writeLocks(context: Context): Promise<void> {
  await context.sql(
    `INSERT INTO person_data_state.job_lock (job, shard, epoch, owner_token, run_id, host, pid, acquired_at, heartbeat_at,
      expires_at, _synced_at)
    SELECT job, '0/1', 1, '', 'suite', 'test', 1, now(), now(), now() + interval '1 hour', now()
    FROM unnest($1::text[]) AS u(job)`,
    [noteHeld()],
  );
}
