import { hash } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import {
  quoteIdentifier,
  quoteLiteral,
  quoteQualified,
  type SchemaNames,
  tableText,
  THIS_DATABASE,
} from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { type PublishableTable, stateTable } from "./rows.ts";

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
  /** Age of the oldest change that readers may not see. */
  readonly lag_seconds: number;
  readonly last_verified_at: string | null;
  readonly tables_differing: readonly string[] | null;
}

export async function readPublicationStatus(db: Db): Promise<readonly PublicationStatus[]> {
  const view = sql.raw(quoteQualified([db.names.ops, "publication"]));
  return db.rows<PublicationStatus>(sql`SELECT * FROM ${view} ORDER BY destination`);
}

/** Name of the trigger function that marks changed keys of a table. */
export const markerName = (table: string): string => `mark_${table}`;

/** Trigger function that marks changed keys of a table; its argument is the destination. */
const functionText = (names: SchemaNames, table: string) => quoteQualified([names.state, markerName(table)]);

const triggerKinds = ["insert", "update", "delete", "key", "truncate"] as const;

/** Name of a trigger; the tag keeps it within the limit of its length. */
function triggerName(destination: string, kind: (typeof triggerKinds)[number]): string {
  return `publish_${hash("sha256", destination, "hex").slice(0, 12)}_${kind}`;
}

/**
 * Statements by trigger that queue each change of a table for a destination, in the transaction of the change. Each table
 * queues its own changes, a list of a person the keys of the people whose list changed. The destination is a constant of
 * the trigger, so that writers with an older snapshot also mark their keys. A TRUNCATE marks the whole table.
 */
function triggersOf(
  names: SchemaNames,
  table: PublishableTable,
  destination: string,
): ReadonlyMap<string, string> {
  const statements = new Map<string, string>();
  const add = (kind: (typeof triggerKinds)[number], event: string, level: string) => {
    const name = triggerName(destination, kind);
    statements.set(
      name,
      `CREATE TRIGGER ${quoteIdentifier(name)} AFTER ${event} ON ${tableText(names, table.name)} ${level}
      EXECUTE FUNCTION ${functionText(names, table.name)}(${quoteLiteral(destination)})`,
    );
  };
  const keyOf = (row: string) => table.rootKey.map((name) => `${row}.${quoteIdentifier(name)}`).join(", ");
  add("truncate", "TRUNCATE", "FOR EACH STATEMENT");
  for (const kind of ["insert", "update", "delete"] as const) {
    const version = kind === "delete" ? "OLD" : "NEW";
    add(kind, kind, `REFERENCING ${version} TABLE AS changed FOR EACH STATEMENT`);
  }
  if (table.rootKey.length > 0) {
    // A key change must also mark the old key. Runs only for statements that set a key column.
    const event = `UPDATE OF ${table.rootKey.map(quoteIdentifier).join(", ")}`;
    const level = `FOR EACH ROW WHEN ((${keyOf("OLD")}) IS DISTINCT FROM (${keyOf("NEW")}))`;
    add("key", event, level);
  }
  return statements;
}

function dropTriggers(names: SchemaNames, table: string, destination: string): readonly string[] {
  return triggerKinds.map(
    (kind) =>
      `DROP TRIGGER IF EXISTS ${quoteIdentifier(triggerName(destination, kind))} ON ${tableText(names, table)}`,
  );
}

/** Runs with its owner's privileges: writers of the table need no privilege on the queue. */
function createFunction(names: SchemaNames, table: PublishableTable): string {
  const queue = `INSERT INTO ${quoteQualified([names.state, "dirty_key"])} (destination, table_name, key)`;
  const name = quoteLiteral(table.name);
  const key = (row: string) =>
    `jsonb_build_array(${table.rootKey.map((column) => `${row}.${quoteIdentifier(column)}`).join(", ")})`;
  const isList = table.rootKey.length < table.key.length;
  const list = table.rootKey.map(quoteIdentifier).join(", ");
  const changed = isList ? `(SELECT DISTINCT ${list} FROM changed)` : "changed";
  return `CREATE OR REPLACE FUNCTION ${functionText(names, table.name)}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $mark$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    ${queue} VALUES (TG_ARGV[0], ${name}, NULL);
  ELSIF TG_LEVEL = 'ROW' THEN
    ${queue} VALUES (TG_ARGV[0], ${name}, ${key("OLD")});
  ELSE
    ${queue} SELECT TG_ARGV[0], ${name}, ${key("c")} FROM ${changed} AS c;
  END IF;
  RETURN NULL;
END $mark$`;
}

interface DestinationState {
  readonly name: string;
  /** Number of the last claimed batch; `confirmed` + 1 while it isn't confirmed. */
  readonly claimed: number;
  readonly claimedId: string | null;
  readonly confirmed: number;
  readonly confirmedId: string | null;
  /** False in a copy of the database that publishes to it. */
  readonly isOfThisDatabase: boolean;
}

const thisDatabase = sql.raw(THIS_DATABASE);

/** Reads every destination that was published to and not dropped since. */
async function readDestinations(session: Session): Promise<readonly DestinationState[]> {
  // `check` reads tables that aren't upgraded yet, without the column.
  return session.rows<DestinationState>(sql`
    SELECT name, claimed, claimed_id AS "claimedId", confirmed, confirmed_id AS "confirmedId",
      coalesce(to_jsonb(d) ->> 'database' = ${thisDatabase}, true) AS "isOfThisDatabase"
    FROM ${stateTable(session, "destination")} AS d ORDER BY name`);
}

/** Reads one destination; null if it was never published to. */
export async function readDestination(session: Session, name: string): Promise<DestinationState | null> {
  return (await readDestinations(session)).find((destination) => destination.name === name) ?? null;
}

/** Names of the destinations that belong to another database with the same data. */
export async function readCopiedDestinations({ transaction }: PublicationDb): Promise<readonly string[]> {
  const all = await transaction(readDestinations);
  return all.filter(({ isOfThisDatabase }) => !isOfThisDatabase).map(({ name }) => name);
}

export async function addDestination(session: Session, name: string): Promise<void> {
  await session.change(sql`INSERT INTO ${stateTable(session, "destination")} (name, database)
      VALUES (${name}, ${thisDatabase}) ON CONFLICT DO NOTHING`);
}

/** Continues the destinations of the database that this one was copied from; returns their names. */
export async function takeOverDestinations(session: Session): Promise<readonly string[]> {
  return session.pluck<string>(sql`
    UPDATE ${stateTable(session, "destination")} SET database = ${thisDatabase} WHERE database <> ${thisDatabase} RETURNING name`);
}

/** Deletes what the state has of a destination, or of one of its tables. */
async function forget(
  session: Session,
  name: string,
  tables: readonly Parameters<typeof stateTable>[1][],
  table: string | null = null,
): Promise<void> {
  for (const stored of tables) {
    await session.change(sql`DELETE FROM ${stateTable(session, stored)}
      WHERE destination = ${name} AND (${table}::text IS NULL OR table_name = ${table})`);
  }
}

/**
 * Restarts from the destination's current batch, `at`: marks every table for full publication, and invalidates a batch in
 * progress. Drops pending keys, which full publication covers.
 */
export async function restartDestination(
  session: Session,
  name: string,
  at: { readonly number: number; readonly id: string } | null,
): Promise<void> {
  const oldest = (["claimed_key", "dirty_key"] as const).map(
    (table) => sql`(SELECT min(marked_at) FROM ${stateTable(session, table)} WHERE destination = ${name})`,
  );
  await session.change(sql`UPDATE ${stateTable(session, "destination")}
    SET claimed = greatest(claimed, ${at?.number ?? 0}::bigint), confirmed = greatest(claimed, ${at?.number ?? 0}::bigint),
      claimed_id = ${at?.id ?? null}::uuid, confirmed_id = ${at?.id ?? null}::uuid,
      needs_freshness = true, unreleased_since = least(unreleased_since, ${sql.join(oldest)}, now()), database = ${thisDatabase}
    WHERE name = ${name}`);
  await forget(session, name, ["claimed_key", "dirty_key"]);
  await markTables(session, name, [...(await readFollowed(session, name)).keys()]);
}

/** Marks tables for full publication. */
export async function markTables(session: Session, name: string, tables: readonly string[]): Promise<void> {
  await session.change(sql`INSERT INTO ${stateTable(session, "dirty_key")} (destination, table_name, key)
    SELECT ${name}, t, NULL FROM unnest(${[...tables]}::text[]) AS t`);
}

/** Names of the tables that have all triggers of a destination; earlier versions gave lists of people only one. */
export async function readTriggered(session: Session, name: string): Promise<ReadonlySet<string>> {
  const { data, ops } = session.names;
  return new Set(
    await session.pluck<string>(sql`
      SELECT c.relname FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      WHERE t.tgname = ${triggerName(name, "insert")} AND n.nspname IN (${data}, ${ops})`),
  );
}

/** Columns of each followed table at its last publication. */
export async function readFollowed(session: Session, name: string): Promise<ReadonlyMap<string, string>> {
  const rows = await session.rows<{ table_name: string; columns: string }>(
    sql`SELECT table_name, columns FROM ${stateTable(session, "followed_table")} WHERE destination = ${name}`,
  );
  return new Map(rows.map((row) => [row.table_name, row.columns]));
}

/** Signature of a table's columns. If it changes, all rows are published again. */
export function columnsText({ columns }: PublishableTable): string {
  return columns.map(({ name, type }) => `${name} ${type}`).join(", ");
}

/**
 * Creates missing triggers of a table and marks it for full publication. Use one transaction per table: creating triggers
 * waits for the table's writers, and blocks new ones. Those that exist are kept, because dropping one would block readers,
 * too; a version that defines a trigger differently names it differently.
 */
export async function followTable(session: Session, name: string, table: PublishableTable): Promise<void> {
  const { names } = session;
  await session.change(sql`SET LOCAL lock_timeout = '10s'`);
  await session.change(sql.raw(createFunction(names, table)));
  const present = new Set(
    await session.pluck<string>(
      sql`SELECT tgname FROM pg_catalog.pg_trigger WHERE tgrelid = ${tableText(names, table.name)}::regclass`,
    ),
  );
  for (const [trigger, statement] of triggersOf(names, table, name)) {
    if (!present.has(trigger)) await session.change(sql.raw(statement));
  }
  await session.change(sql`INSERT INTO ${stateTable(session, "followed_table")} (destination, table_name, columns)
    VALUES (${name}, ${table.name}, ${columnsText(table)})
    ON CONFLICT (destination, table_name) DO UPDATE SET columns = excluded.columns`);
  await markTables(session, name, [table.name]);
}

/** Drops the triggers of a table and its pending keys. */
export async function leaveTable(session: Session, name: string, table: string): Promise<void> {
  await session.change(sql`SET LOCAL lock_timeout = '10s'`);
  for (const statement of dropTriggers(session.names, table, name)) await session.change(sql.raw(statement));
  await forget(session, name, QUEUES, table);
}

const QUEUES = ["followed_table", "dirty_key", "claimed_key"] as const;

/** Deletes the recorded state of a destination after its tables are left. Returns false if there was none. */
export async function removeDestination(session: Session, name: string): Promise<boolean> {
  await forget(session, name, QUEUES);
  const destination = stateTable(session, "destination");
  return (await session.change(sql`DELETE FROM ${destination} WHERE name = ${name}`)) > 0;
}

/** Returns the destinations whose readers may not see all committed changes yet. */
export async function laggingDestinations(session: Session): Promise<readonly string[]> {
  return session.pluck<string>(sql`
    SELECT name FROM ${stateTable(session, "destination")} AS d
    WHERE claimed <> confirmed OR unreleased_since IS NOT NULL
      OR EXISTS (SELECT FROM ${stateTable(session, "dirty_key")} AS k WHERE k.destination = d.name)
    ORDER BY name`);
}
