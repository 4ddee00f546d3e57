import { Kysely, PostgresDialect } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import type pg from "pg";
import { lookups } from "../../../migrations/postgres/0001-lookups.ts";
import { codeOf, FixConfigurationError, messageOf } from "../../errors.ts";
import { tables } from "../../schemas/registry.ts";
import { commentsOf } from "./ddl.ts";
import { quoteIdentifier, type SchemaNames } from "./names.ts";
import { recordingDialect } from "./recording-dialect.ts";
import { runStatements } from "./run-statements.ts";

/** Every migration by name, in order; forward only, each only adds. */
function migrationsFor(names: SchemaNames): Record<string, Migration> {
  const data = quoteIdentifier(names.data);
  const ops = quoteIdentifier(names.ops);
  return { "0001-lookups": lookups(data, ops) };
}

/** Name of the table that remembers which migrations ran; in the ops schema. */
const MIGRATION_TABLE = "schema_migration";

/** Creates or upgrades the tables; returns the names of migrations that ran. Safe to call from several processes. */
export async function migrate(pool: pg.Pool, names: SchemaNames): Promise<readonly string[]> {
  // The dialect takes a pool as it is; ending it is the warehouse's business, so the instance isn't destroyed here.
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
  const migrator = new Migrator({
    db,
    provider: { getMigrations: async () => migrationsFor(names) },
    migrationTableSchema: names.ops,
    migrationTableName: MIGRATION_TABLE,
    migrationLockTableName: `${MIGRATION_TABLE}_lock`,
  });
  const { error, results } = await migrator.migrateToLatest();
  if (error !== undefined) throw migrationError(error, names);
  const ran = (results ?? [])
    .filter((result) => result.status === "Success")
    .map((result) => result.migrationName);
  if (ran.length > 0) {
    const comments = tables.flatMap((table) => commentsOf(table, names));
    await db.transaction().execute((transaction) => runStatements(transaction, comments));
  }
  return ran;
}

function migrationError(error: unknown, names: SchemaNames): Error {
  if (codeOf(error) !== "42501") {
    return error instanceof Error ? error : new Error(messageOf(error));
  }
  return new FixConfigurationError(
    "no_right_to_create",
    `Can't create the tables of ${names.data} and ${names.ops}: ${messageOf(error)}.`,
    [
      {
        path: "warehouse.schema",
        message: messageOf(error),
        hint: "Create both schemas as an administrator and make the role their owner; `person-etl check` shows the commands.",
      },
    ],
    { cause: error },
  );
}

/** Whether the newest migration has run. */
export async function isMigrated(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  const { rows } = await pool.query<{ oid: string | null }>("SELECT to_regclass($1)::text AS oid", [
    `${quoteIdentifier(names.ops)}.${quoteIdentifier("warehouse_identity")}`,
  ]);
  return (rows[0]?.oid ?? null) !== null;
}

/** The DDL of an empty warehouse, as `migrate --print` shows it. */
export async function printDdl(names: SchemaNames): Promise<string> {
  const statements: string[] = [];
  const recorder = new Kysely<unknown>({ dialect: recordingDialect(statements) });
  for (const migration of Object.values(migrationsFor(names))) await migration.up(recorder);
  statements.push(...tables.flatMap((table) => commentsOf(table, names)));
  return `${statements.map((statement) => `${statement};`).join("\n\n")}\n`;
}
