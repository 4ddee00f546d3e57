import { sql } from "kysely";
import type { SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { columnsText, type PublishableTable, stateText } from "./names.ts";
import { createTriggers, dropTriggers } from "./triggers.ts";

/** Number and ID of a destination's last batch. */
interface Position {
  readonly number: number;
  readonly id: string;
}

/** Recorded state of a destination. */
export interface DestinationState {
  readonly name: string;
  /** Number of the last claimed batch; `confirmed` + 1 while it isn't confirmed. */
  readonly claimed: number;
  readonly claimedId: string | null;
  readonly confirmed: number;
  readonly confirmedId: string | null;
  /** False if the destination may still have to publish a batch to readers or purge erased values. */
  readonly isReleased: boolean;
  /** Null if it was never verified. */
  readonly lastVerifiedAt: string | null;
}

/** Reads every destination that was published to and not dropped since. */
export async function readDestinations(
  session: Session,
  names: SchemaNames,
): Promise<readonly DestinationState[]> {
  return session.rows<DestinationState>(
    sql`SELECT name, claimed, claimed_id AS "claimedId", confirmed, confirmed_id AS "confirmedId",
        is_released AS "isReleased", last_verified_at AS "lastVerifiedAt"
      FROM ${sql.raw(stateText(names, "destination"))} ORDER BY name`,
  );
}

/** Reads one destination; null if it was never published to. */
export async function readDestination(
  session: Session,
  names: SchemaNames,
  name: string,
): Promise<DestinationState | null> {
  const all = await readDestinations(session, names);
  return all.find((destination) => destination.name === name) ?? null;
}

/** Records a new destination. */
export async function addDestination(session: Session, names: SchemaNames, name: string): Promise<void> {
  await session.change(
    sql`INSERT INTO ${sql.raw(stateText(names, "destination"))} (name) VALUES (${name}) ON CONFLICT DO NOTHING`,
  );
}

/**
 * Restarts from the destination's current batch: marks every table for full publication, and invalidates a batch in
 * progress. Drops pending keys, which full publication covers.
 */
export async function restartDestination(
  session: Session,
  names: SchemaNames,
  name: string,
  at: Position | null,
): Promise<void> {
  const destination = sql.raw(stateText(names, "destination"));
  await session.change(
    sql`UPDATE ${destination} SET claimed = greatest(claimed, ${at?.number ?? 0}::bigint),
        confirmed = greatest(claimed, ${at?.number ?? 0}::bigint),
        claimed_id = ${at?.id ?? null}::uuid, confirmed_id = ${at?.id ?? null}::uuid,
        needs_freshness = true, is_released = false
      WHERE name = ${name}`,
  );
  for (const table of ["publication_batch", "dirty_key"] as const) {
    await session.change(sql`DELETE FROM ${sql.raw(stateText(names, table))} WHERE destination = ${name}`);
  }
  await session.change(
    sql`INSERT INTO ${sql.raw(stateText(names, "dirty_key"))} (destination, table_name, key)
      SELECT destination, table_name, NULL FROM ${sql.raw(stateText(names, "destination_table"))}
      WHERE destination = ${name}`,
  );
}

/** Marks tables for full publication. */
export async function markTables(
  session: Session,
  names: SchemaNames,
  name: string,
  tables: readonly string[],
): Promise<void> {
  await session.change(
    sql`INSERT INTO ${sql.raw(stateText(names, "dirty_key"))} (destination, table_name, key)
      SELECT ${name}, t, NULL FROM unnest(${[...tables]}::text[]) AS t`,
  );
}

/** Returns the tables without triggers, or with other columns than at their last publication. */
export async function tablesToFollow(
  session: Session,
  names: SchemaNames,
  name: string,
  tables: readonly PublishableTable[],
): Promise<readonly PublishableTable[]> {
  const known = await session.rows<{ table_name: string; columns: string }>(
    sql`SELECT table_name, columns FROM ${sql.raw(stateText(names, "destination_table"))} WHERE destination = ${name}`,
  );
  const columns = new Map(known.map((row) => [row.table_name, row.columns]));
  return tables.filter((table) => columns.get(table.name) !== columnsText(table));
}

/**
 * Creates the triggers of a table and marks it for full publication. Use one transaction per table: creating triggers
 * waits for the table's writers, and blocks new ones.
 */
export async function followTable(
  session: Session,
  names: SchemaNames,
  name: string,
  table: PublishableTable,
): Promise<void> {
  await session.change(sql`SET LOCAL lock_timeout = '10s'`);
  for (const statement of createTriggers(names, table, name)) await session.change(sql.raw(statement));
  await session.change(
    sql`INSERT INTO ${sql.raw(stateText(names, "destination_table"))} (destination, table_name, columns)
      VALUES (${name}, ${table.name}, ${columnsText(table)})
      ON CONFLICT (destination, table_name) DO UPDATE SET columns = excluded.columns`,
  );
  await markTables(session, names, name, [table.name]);
}

/** Returns the followed tables that are not in `kept`. */
export async function tablesToLeave(
  session: Session,
  names: SchemaNames,
  name: string,
  kept: readonly string[],
): Promise<readonly string[]> {
  const rows = await session.rows<{ table_name: string }>(
    sql`SELECT table_name FROM ${sql.raw(stateText(names, "destination_table"))}
      WHERE destination = ${name} AND NOT table_name = ANY(${[...kept]}::text[])`,
  );
  return rows.map(({ table_name }) => table_name);
}

/** Drops the triggers of a table and its pending keys. */
export async function leaveTable(
  session: Session,
  names: SchemaNames,
  name: string,
  table: Pick<PublishableTable, "name">,
): Promise<void> {
  await session.change(sql`SET LOCAL lock_timeout = '10s'`);
  for (const statement of dropTriggers(names, table, name)) await session.change(sql.raw(statement));
  for (const queue of ["destination_table", "dirty_key", "publication_batch"] as const) {
    await session.change(
      sql`DELETE FROM ${sql.raw(stateText(names, queue))} WHERE destination = ${name} AND table_name = ${table.name}`,
    );
  }
}

/** Deletes the recorded state of a destination after its tables are left. Returns false if there was none. */
export async function removeDestination(
  session: Session,
  names: SchemaNames,
  name: string,
): Promise<boolean> {
  for (const table of ["destination_table", "dirty_key", "publication_batch"] as const) {
    await session.change(sql`DELETE FROM ${sql.raw(stateText(names, table))} WHERE destination = ${name}`);
  }
  const removed = await session.change(
    sql`DELETE FROM ${sql.raw(stateText(names, "destination"))} WHERE name = ${name}`,
  );
  return removed > 0;
}

/** Returns the destinations whose readers may not see all committed changes yet. */
export async function laggingDestinations(session: Session, names: SchemaNames): Promise<readonly string[]> {
  const rows = await session.rows<{ name: string }>(
    sql`SELECT name FROM ${sql.raw(stateText(names, "destination"))} AS d
      WHERE claimed <> confirmed OR NOT is_released
        OR EXISTS (SELECT FROM ${sql.raw(stateText(names, "dirty_key"))} AS k WHERE k.destination = d.name)
      ORDER BY name`,
  );
  return rows.map(({ name }) => name);
}
