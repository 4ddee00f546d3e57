import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import {
  quoteIdentifier,
  quoteLiteral,
  quoteQualified,
  type SchemaNames,
  THIS_DATABASE,
} from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { columnsText, type PublishableTable, sourceText, stateTable, stateText, tagOf } from "./rows.ts";

/** The part of the place of record that publication uses. */
export type PublicationDb = Pick<Db, "names" | "transaction" | "snapshot">;

/** One row of the view `publication`. */
export interface PublicationStatus {
  readonly destination: string;
  /** Last confirmed batch; 0 before the first one. */
  readonly batch_number: number;
  readonly last_published_at: string | null;
  /** Rows published since the destination was added. */
  readonly rows_published: number;
  /** Changed keys not published yet. */
  readonly keys_waiting: number;
  /** Age of the oldest pending key. */
  readonly lag_seconds: number;
  readonly last_verified_at: string | null;
  /** Tables that differed at the last comparison. */
  readonly tables_differing: readonly string[] | null;
}

/** Reads the status of all destinations. */
export async function readPublicationStatus(db: Db): Promise<readonly PublicationStatus[]> {
  const view = sql.raw(quoteQualified([db.names.ops, "publication"]));
  return db.rows<PublicationStatus>(sql`SELECT * FROM ${view} ORDER BY destination`);
}

/** Trigger function that marks changed keys of a table; its argument is the destination. */
function functionText(names: SchemaNames, table: PublishableTable): string {
  return quoteQualified([names.state, `mark_${table.name}`]);
}

const triggerKinds = ["insert", "update", "delete", "key", "truncate"] as const;

function triggerName(destination: string, kind: (typeof triggerKinds)[number]): string {
  return quoteIdentifier(`publish_${tagOf(destination)}_${kind}`);
}

/**
 * Creates the triggers that queue each change of a table for a destination, in the transaction of the change. Creating
 * them waits for writers in progress. The destination is a constant of the trigger, so that writers with an older
 * snapshot also mark their keys. A TRUNCATE, even of a child, marks the whole table.
 */
function createTriggers(names: SchemaNames, table: PublishableTable, destination: string): readonly string[] {
  const isRoot = table.root === table.name;
  const on = `ON ${sourceText(names, table)}`;
  const call = `EXECUTE FUNCTION ${functionText(names, table)}(${quoteLiteral(destination)})`;
  const create = (kind: (typeof triggerKinds)[number], event: string, level: string) =>
    `CREATE TRIGGER ${triggerName(destination, kind)} AFTER ${event} ${on} ${level} ${call}`;
  const keyColumns = table.rootKey.map(quoteIdentifier);
  return [
    createFunction(names, table, isRoot),
    ...dropTriggers(names, table, destination),
    create("truncate", "TRUNCATE", "FOR EACH STATEMENT"),
    ...(isRoot
      ? [
          create("insert", "INSERT", "REFERENCING NEW TABLE AS changed FOR EACH STATEMENT"),
          create("update", "UPDATE", "REFERENCING NEW TABLE AS changed FOR EACH STATEMENT"),
          create("delete", "DELETE", "REFERENCING OLD TABLE AS changed FOR EACH STATEMENT"),
        ]
      : []),
    // A key change must also mark the old key. Runs only for statements that set a key column.
    ...(isRoot && keyColumns.length > 0
      ? [
          create(
            "key",
            `UPDATE OF ${keyColumns.join(", ")}`,
            `FOR EACH ROW WHEN ((${keyColumns.map((c) => `OLD.${c}`).join(", ")}) IS DISTINCT FROM (${keyColumns.map((c) => `NEW.${c}`).join(", ")}))`,
          ),
        ]
      : []),
  ];
}

/** Drops the triggers of a destination on a table. */
function dropTriggers(
  names: SchemaNames,
  table: Pick<PublishableTable, "name">,
  destination: string,
): readonly string[] {
  return triggerKinds.map(
    (kind) => `DROP TRIGGER IF EXISTS ${triggerName(destination, kind)} ON ${sourceText(names, table)}`,
  );
}

/** Runs with its owner's privileges: writers of the table need no privilege on the queue. */
function createFunction(names: SchemaNames, table: PublishableTable, isRoot: boolean): string {
  const queue = `INSERT INTO ${stateText(names, "dirty_key")} (destination, table_name, key)`;
  const name = quoteLiteral(table.name);
  const key = (row: string) =>
    `jsonb_build_array(${table.rootKey.map((column) => `${row}.${quoteIdentifier(column)}`).join(", ")})`;
  const marks = isRoot
    ? `ELSIF TG_LEVEL = 'ROW' THEN
    ${queue} VALUES (TG_ARGV[0], ${name}, ${key("OLD")});
  ELSE
    ${queue} SELECT TG_ARGV[0], ${name}, ${key("c")} FROM changed AS c;
  END IF;`
    : "END IF;";
  return `CREATE OR REPLACE FUNCTION ${functionText(names, table)}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $mark$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    ${queue} VALUES (TG_ARGV[0], ${name}, NULL);
  ${marks}
  RETURN NULL;
END $mark$`;
}

/** Number and ID of a destination's last batch. */
interface Position {
  readonly number: number;
  readonly id: string;
}

/** Recorded state of a destination. */
interface DestinationState {
  readonly name: string;
  /** Number of the last claimed batch; `confirmed` + 1 while it isn't confirmed. */
  readonly claimed: number;
  readonly claimedId: string | null;
  readonly confirmed: number;
  readonly confirmedId: string | null;
  /** False if the destination may still have to publish a batch to readers or purge erased values. */
  readonly isReleased: boolean;
  /** False in a copy of the database that publishes to it. */
  readonly isOfThisDatabase: boolean;
  /** Null if it was never verified. */
  readonly lastVerifiedAt: string | null;
}

const thisDatabase = sql.raw(THIS_DATABASE);

/** Reads every destination that was published to and not dropped since. */
async function readDestinations(session: Session): Promise<readonly DestinationState[]> {
  // `check` reads tables that aren't upgraded yet, without the column.
  return session.rows<DestinationState>(sql`SELECT name, claimed, claimed_id AS "claimedId", confirmed, confirmed_id AS "confirmedId",
        is_released AS "isReleased", coalesce(to_jsonb(d) ->> 'database' = ${thisDatabase}, true) AS "isOfThisDatabase", last_verified_at AS "lastVerifiedAt"
      FROM ${stateTable(session, "destination")} AS d ORDER BY name`);
}

/** Reads one destination; null if it was never published to. */
export async function readDestination(session: Session, name: string): Promise<DestinationState | null> {
  const all = await readDestinations(session);
  return all.find((destination) => destination.name === name) ?? null;
}

/** Names of the destinations that belong to another database with the same data. */
export async function readCopiedDestinations({ transaction }: PublicationDb): Promise<readonly string[]> {
  const all = await transaction((session) => readDestinations(session));
  return all.filter(({ isOfThisDatabase }) => !isOfThisDatabase).map(({ name }) => name);
}

/** Records a new destination. */
export async function addDestination(session: Session, name: string): Promise<void> {
  await session.change(sql`INSERT INTO ${stateTable(session, "destination")} (name, database)
      VALUES (${name}, ${thisDatabase}) ON CONFLICT DO NOTHING`);
}

/** Continues the destinations of the database that this one was copied from; returns their names. */
export async function takeOverDestinations(session: Session): Promise<readonly string[]> {
  const rows = await session.rows<{
    name: string;
  }>(sql`UPDATE ${stateTable(session, "destination")} SET database = ${thisDatabase}
      WHERE database <> ${thisDatabase} RETURNING name`);
  return rows.map(({ name }) => name);
}

/**
 * Restarts from the destination's current batch: marks every table for full publication, and invalidates a batch in
 * progress. Drops pending keys, which full publication covers.
 */
export async function restartDestination(session: Session, name: string, at: Position | null): Promise<void> {
  const destination = stateTable(session, "destination");
  await session.change(sql`UPDATE ${destination} SET claimed = greatest(claimed, ${at?.number ?? 0}::bigint),
        confirmed = greatest(claimed, ${at?.number ?? 0}::bigint),
        claimed_id = ${at?.id ?? null}::uuid, confirmed_id = ${at?.id ?? null}::uuid,
        needs_freshness = true, is_released = false, database = ${thisDatabase}
      WHERE name = ${name}`);
  for (const table of ["publication_batch", "dirty_key"] as const) {
    await session.change(sql`DELETE FROM ${stateTable(session, table)} WHERE destination = ${name}`);
  }
  await session.change(sql`INSERT INTO ${stateTable(session, "dirty_key")} (destination, table_name, key)
      SELECT destination, table_name, NULL FROM ${stateTable(session, "destination_table")}
      WHERE destination = ${name}`);
}

/** Marks tables for full publication. */
export async function markTables(session: Session, name: string, tables: readonly string[]): Promise<void> {
  await session.change(sql`INSERT INTO ${stateTable(session, "dirty_key")} (destination, table_name, key)
      SELECT ${name}, t, NULL FROM unnest(${[...tables]}::text[]) AS t`);
}

/** Returns the tables without triggers, or with other columns than at their last publication. */
export async function tablesToFollow(
  session: Session,
  name: string,
  tables: readonly PublishableTable[],
): Promise<readonly PublishableTable[]> {
  const known = await session.rows<{ table_name: string; columns: string }>(
    sql`SELECT table_name, columns FROM ${stateTable(session, "destination_table")} WHERE destination = ${name}`,
  );
  const columns = new Map(known.map((row) => [row.table_name, row.columns]));
  return tables.filter((table) => columns.get(table.name) !== columnsText(table));
}

/**
 * Creates the triggers of a table and marks it for full publication. Use one transaction per table: creating triggers
 * waits for the table's writers, and blocks new ones.
 */
export async function followTable(session: Session, name: string, table: PublishableTable): Promise<void> {
  await session.change(sql`SET LOCAL lock_timeout = '10s'`);
  for (const statement of createTriggers(session.names, table, name))
    await session.change(sql.raw(statement));
  await session.change(sql`INSERT INTO ${stateTable(session, "destination_table")} (destination, table_name, columns)
      VALUES (${name}, ${table.name}, ${columnsText(table)})
      ON CONFLICT (destination, table_name) DO UPDATE SET columns = excluded.columns`);
  await markTables(session, name, [table.name]);
}

/** Returns the followed tables that are not in `kept`. */
export async function tablesToLeave(
  session: Session,
  name: string,
  kept: readonly string[],
): Promise<readonly string[]> {
  const rows = await session.rows<{
    table_name: string;
  }>(sql`SELECT table_name FROM ${stateTable(session, "destination_table")}
      WHERE destination = ${name} AND NOT table_name = ANY(${[...kept]}::text[])`);
  return rows.map(({ table_name }) => table_name);
}

/** Drops the triggers of a table and its pending keys. */
export async function leaveTable(
  session: Session,
  name: string,
  table: Pick<PublishableTable, "name">,
): Promise<void> {
  await session.change(sql`SET LOCAL lock_timeout = '10s'`);
  for (const statement of dropTriggers(session.names, table, name)) await session.change(sql.raw(statement));
  for (const queue of ["destination_table", "dirty_key", "publication_batch"] as const) {
    await session.change(
      sql`DELETE FROM ${stateTable(session, queue)} WHERE destination = ${name} AND table_name = ${table.name}`,
    );
  }
}

/** Deletes the recorded state of a destination after its tables are left. Returns false if there was none. */
export async function removeDestination(session: Session, name: string): Promise<boolean> {
  for (const table of ["destination_table", "dirty_key", "publication_batch"] as const) {
    await session.change(sql`DELETE FROM ${stateTable(session, table)} WHERE destination = ${name}`);
  }
  const removed = await session.change(
    sql`DELETE FROM ${stateTable(session, "destination")} WHERE name = ${name}`,
  );
  return removed > 0;
}

/** Returns the destinations whose readers may not see all committed changes yet. */
export async function laggingDestinations(session: Session): Promise<readonly string[]> {
  const rows = await session.rows<{
    name: string;
  }>(sql`SELECT name FROM ${stateTable(session, "destination")} AS d
      WHERE claimed <> confirmed OR NOT is_released
        OR EXISTS (SELECT FROM ${stateTable(session, "dirty_key")} AS k WHERE k.destination = d.name)
      ORDER BY name`);
  return rows.map(({ name }) => name);
}
