import { type Dialect, Kysely, PostgresDialect, sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import type pg from "pg";
import { lookups } from "../../../migrations/postgres/0001-lookups.ts";
import { jobLock } from "../../../migrations/postgres/0002-job-lock.ts";
import { budgets } from "../../../migrations/postgres/0003-budgets.ts";
import { segments } from "../../../migrations/postgres/0004-segments.ts";
import { usage } from "../../../migrations/postgres/0005-usage.ts";
import { schedule } from "../../../migrations/postgres/0006-schedule.ts";
import { erasure } from "../../../migrations/postgres/0007-erasure.ts";
import { reconciliation } from "../../../migrations/postgres/0008-reconciliation.ts";
import { codeOf, FixConfigurationError, messageOf, StopRunError } from "../../errors.ts";
import { tables } from "../../schemas/registry.ts";
import { checkWarehouse } from "./check.ts";
import { commentsOf } from "./ddl.ts";
import { quoteIdentifier, type SchemaNames } from "./names.ts";
import { recordingDialect } from "./recording-dialect.ts";
import { runStatements } from "./run-statements.ts";

/** Every migration by name, in order; forward only, each only adds. */
function migrationsFor(names: SchemaNames): Record<string, Migration> {
  const data = quoteIdentifier(names.data);
  const ops = quoteIdentifier(names.ops);
  return {
    "0001-lookups": lookups(data, ops),
    "0002-job-lock": jobLock(ops),
    "0003-budgets": budgets(data, ops),
    "0004-segments": segments(data, ops),
    "0005-usage": usage(ops),
    "0006-schedule": schedule(ops),
    "0007-erasure": erasure(data, ops),
    "0008-reconciliation": withComments(reconciliation(ops), names),
  };
}

/** The newest migration leaves every table and column with its comment. */
function withComments(newest: Migration, names: SchemaNames): Migration {
  return {
    async up(db) {
      await newest.up(db);
      const comments = tables.flatMap((table) => commentsOf(table, names));
      await runStatements(db, comments);
    },
  };
}

/** Name of the table that remembers which migrations ran; in the ops schema. */
const MIGRATION_TABLE = "schema_migration";

/** Of whoever migrates a database; the number that Kysely's own lock has, so that earlier versions keep to it. */
const LOCK_ID = 3_853_314_791_062_309_107n;
const LOCK_TIMEOUT = "10min";

/**
 * A dialect that leaves out Kysely's lock. That one belongs to a session, and behind a pooler the session serves somebody else
 * before it is given back: then it stays, and the next process waits for an hour. Ours goes with its transaction.
 */
function withoutLock(pool: pg.Pool): Dialect {
  const dialect = new PostgresDialect({ pool });
  const noLock = { acquireMigrationLock: async () => {}, releaseMigrationLock: async () => {} };
  return {
    createAdapter: () => Object.assign(dialect.createAdapter(), noLock),
    createDriver: () => dialect.createDriver(),
    createIntrospector: (db) => dialect.createIntrospector(db),
    createQueryCompiler: () => dialect.createQueryCompiler(),
  };
}

/** Creates or upgrades the tables; returns the names of migrations that ran. Safe to call from several processes. */
export async function migrate(pool: pg.Pool, names: SchemaNames): Promise<readonly string[]> {
  try {
    if (await isUpToDate(pool, names)) return [];
    for (const schema of [names.data, names.ops]) await ensureSchema(pool, schema);
    // The dialect takes a pool as it is; ending it is the warehouse's business, so the instance isn't destroyed here.
    const db = new Kysely<unknown>({ dialect: withoutLock(pool) });
    // Otherwise who has waited would still see the tables as they were before.
    return await db
      .transaction()
      .setIsolationLevel("read committed")
      .execute(async (trx) => {
        await takeLock(trx);
        const migrator = new Migrator({
          db: trx,
          provider: { getMigrations: async () => migrationsFor(names) },
          migrationTableSchema: names.ops,
          migrationTableName: MIGRATION_TABLE,
          migrationLockTableName: `${MIGRATION_TABLE}_lock`,
        });
        const { error, results } = await migrator.migrateToLatest();
        if (error !== undefined) throw error;
        return (results ?? [])
          .filter((result) => result.status === "Success")
          .map((result) => result.migrationName);
      });
  } catch (error) {
    throw await migrationError(pool, error, names);
  }
}

async function takeLock(trx: Kysely<unknown>): Promise<void> {
  await sql`SELECT set_config('lock_timeout', ${LOCK_TIMEOUT}, true)`.execute(trx);
  try {
    await sql`SELECT pg_advisory_xact_lock(${sql.lit(LOCK_ID)})`.execute(trx);
  } catch (error) {
    if (codeOf(error) !== LOCK_NOT_AVAILABLE) throw error;
    throw new StopRunError(
      "migration_locked",
      `Somebody else has been bringing the tables up to date for ${LOCK_TIMEOUT}, or a session has kept the lock: end the one that ` +
        "`SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted` shows, unless it is at work.",
      { cause: error },
    );
  }
  await sql`SET LOCAL lock_timeout = DEFAULT`.execute(trx);
}

/** SQLSTATE of a lock that was waited for too long. */
const LOCK_NOT_AVAILABLE = "55P03";

/** Whether all migrations of this version have run, be there later ones or not: then nobody has to be waited for. */
async function isUpToDate(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  if (!(await hasTable(pool, names, MIGRATION_TABLE))) return false;
  const { rows } = await pool.query<{ name: string }>(
    `SELECT name FROM ${quoteIdentifier(names.ops)}.${quoteIdentifier(MIGRATION_TABLE)}`,
  );
  const ran = new Set(rows.map(({ name }) => name));
  return Object.keys(migrationsFor(names)).every((name) => ran.has(name));
}

/** SQLSTATEs of two processes that create the same schema. */
const EXISTS_ALREADY: ReadonlySet<string> = new Set(["42P06", "23505"]);

/**
 * Creates a schema unless it exists. `CREATE SCHEMA IF NOT EXISTS` alone won't do: it asks for the right to create one even
 * where an administrator has made it for us.
 */
async function ensureSchema(pool: pg.Pool, name: string): Promise<void> {
  const { rows } = await pool.query("SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1", [name]);
  if (rows.length > 0) return;
  try {
    await pool.query(createSchema(name));
  } catch (error) {
    if (!EXISTS_ALREADY.has(codeOf(error) ?? "")) throw error;
  }
}

function createSchema(name: string): string {
  return `CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(name)}`;
}

/** A missing right as an error that names the grants; any other error as it is. */
async function migrationError(pool: pg.Pool, error: unknown, names: SchemaNames): Promise<Error> {
  if (codeOf(error) !== "42501") {
    return error instanceof Error ? error : new Error(messageOf(error));
  }
  const lines = await checkWarehouse(pool, names, "The warehouse");
  const problems = lines
    .filter((line) => !line.ok)
    .map(({ subject, message, hint }) => ({
      path: "warehouse",
      message: `${subject} ${message}`,
      ...(hint === undefined ? {} : { hint }),
    }));
  return new FixConfigurationError(
    "no_right_to_create",
    `Can't create the tables of ${names.data} and ${names.ops}: ${messageOf(error)}.`,
    problems,
    { cause: error },
  );
}

/** Whether the first migration has run; a later one may still be missing. */
export async function isMigrated(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  return hasTable(pool, names, "warehouse_identity");
}

/** Whether budgets are counted here: not before the next run of a warehouse that an earlier version made. */
export async function hasBudgets(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  return hasTable(pool, names, "budget_use");
}

/** Whether slots and alert states are kept here. */
export async function hasSchedule(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  return hasTable(pool, names, "schedule_slot");
}

/** Whether segments are kept here. */
export async function hasSegments(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  return hasTable(pool, names, "segment_sync");
}

/** Whether usage is kept here. */
export async function hasUsage(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  return hasTable(pool, names, "person_search_quota");
}

/** Whether erasures are remembered here: not before the next run of a warehouse that an earlier version made. */
export async function hasErasures(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  return hasTable(pool, names, "erasure_epoch");
}

async function hasTable(pool: pg.Pool, names: SchemaNames, name: string): Promise<boolean> {
  const { rows } = await pool.query<{ oid: string | null }>("SELECT to_regclass($1)::text AS oid", [
    `${quoteIdentifier(names.ops)}.${quoteIdentifier(name)}`,
  ]);
  return (rows[0]?.oid ?? null) !== null;
}

/** The DDL of an empty warehouse, as `migrate --print` shows it. */
export async function printDdl(names: SchemaNames): Promise<string> {
  const statements = [createSchema(names.data), createSchema(names.ops)];
  const recorder = new Kysely<unknown>({ dialect: recordingDialect(statements) });
  for (const migration of Object.values(migrationsFor(names))) await migration.up(recorder);
  return `${statements.map((statement) => `${statement};`).join("\n\n")}\n`;
}
