import { sql } from "kysely";
import type pg from "pg";
import { migrations } from "../../../migrations/all-migrations.ts";
import { codeOf, FixConfigurationError, messageOf } from "../../errors.ts";
import { observe } from "../../outage-report.ts";
import type { Derivation } from "../../schemas/derive.ts";
import { tables } from "../../schemas/registry.ts";
import { views } from "../../schemas/views/all-views.ts";
import { checkDatabase } from "./check.ts";
import type { Db } from "./db.ts";
import { explained, outageOf } from "./failures.ts";
import { addExtraColumns, dropDeclaredColumns, findMissingColumns } from "./extra-columns.ts";
import { commentsOf, createView, postgresTypes } from "./ddl.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified, type SchemaNames, tableId } from "./names.ts";
import { upgradeInputViews } from "./input-views.ts";
import {
  inTransaction,
  MIGRATION_TABLE,
  migrationLock,
  type PostgresSession,
  waitForLock,
} from "./session.ts";

const LOCK_TIMEOUT = "10min";

/** SQLSTATEs of two processes that create the same schema or table. */
const ALREADY_EXISTS: ReadonlySet<string> = new Set(["42P06", "42P07", "23505"]);

const schemaNamesOf = (names: SchemaNames) => [names.data, names.ops, names.state];

/** Throws unless the tables exist. Each command migrates first or calls this; all other functions require the tables. */
export async function requireSetUp(db: Db): Promise<void> {
  if (!(await isMigrated(db))) throw notSetUp();
}

/** Error of a command that needs tables which don't exist yet. */
export function notSetUp(): FixConfigurationError {
  return new FixConfigurationError(
    "not_set_up",
    "The warehouse isn't set up yet: run `person-etl migrate`, or start with `person-etl run`.",
  );
}

/** True if the tables exist. Refuses a database that can't hold them. */
export async function isMigrated(db: Db): Promise<boolean> {
  return explained(db.explain, () => observe(db.outage, outageOf, () => hasTables(db.pool, db.names)));
}

/** Creates or upgrades the tables; returns the names of migrations that ran. Safe to call from several processes. */
export async function migrate(db: Db): Promise<readonly string[]> {
  const { pool, names } = db;
  try {
    const missing = () =>
      inTransaction(pool, (session) => findMissingColumns(session, names, db.extraColumns));
    if ((await isUpToDate(db)) && Object.keys(await missing()).length === 0) return [];
    const run = () => inTransaction(pool, (session) => runMissing(session, db));
    const ran = await run().catch((error: unknown) => {
      // Another process has created a schema or the table of migrations, and by now run them.
      if (ALREADY_EXISTS.has(codeOf(error) ?? "")) return run();
      throw error;
    });
    const afterwards = migrations
      .filter(({ name }) => ran.includes(name))
      .flatMap((one) => one.afterwards?.(names) ?? []);
    for (const statement of afterwards) {
      await inTransaction(pool, (session) => session.change(sql.raw(statement)));
    }
    if (ran.length > 0) await inTransaction(pool, (session) => upgradeInputViews(session, names));
    return ran;
  } catch (error) {
    throw db.explain(await explainMissingRight(db, error));
  }
}

/** Runs missing migrations, then refreshes views and comments; adds the columns of the configuration. */
async function runMissing(session: PostgresSession, { names, extraColumns }: Db): Promise<readonly string[]> {
  const table = sql.id(names.state, MIGRATION_TABLE);
  const purpose = "migrating the warehouse";
  const lock = { ...migrationLock(names), code: "migration_locked", timeout: LOCK_TIMEOUT, purpose };
  const schemas = await session.pluck<string>(sql`
    SELECT name FROM unnest(${schemaNamesOf(names)}::text[]) AS s(name)
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace AS n WHERE n.nspname = s.name)`);
  // `IF NOT EXISTS` alone requires the privilege to create a schema even if an administrator has already created it.
  const creations = [...schemas.map(createSchema), createMigrationTable(names)];
  // Creating them waits for another process that does.
  for (const statement of creations) await waitForLock(session, { ...lock, take: sql.raw(statement) });
  await waitForLock(session, lock);
  const ran = new Set(await session.pluck<string>(sql`SELECT name FROM ${table}`));
  const missing = migrations.filter(({ name }) => !ran.has(name));
  if (missing.length > 0) await dropDeclaredColumns(session, names);
  for (const { name, statements, derivations } of missing) {
    for (const statement of statements(names)) await session.change(sql.raw(statement));
    if (derivations) await fillDerived(session, names, derivations);
    await session.change(sql.raw(recordMigration(names, name)));
  }
  if (missing.length > 0) {
    for (const statement of renewals(names)) await session.change(sql.raw(statement));
  }
  const added = await findMissingColumns(session, names, extraColumns);
  for (const statement of addExtraColumns(added, names))
    await waitForLock(session, { ...lock, take: sql.raw(statement) });
  return missing.map(({ name }) => name);
}

const migrationTable = (names: SchemaNames) => quoteQualified([names.state, MIGRATION_TABLE]);

function createMigrationTable(names: SchemaNames): string {
  return `CREATE TABLE IF NOT EXISTS ${migrationTable(names)} (
  name text PRIMARY KEY,
  ran_at timestamp with time zone NOT NULL DEFAULT now()
)`;
}

function recordMigration(names: SchemaNames, name: string): string {
  return `INSERT INTO ${migrationTable(names)} (name) VALUES (${quoteLiteral(name)})`;
}

/** Statements that run at every upgrade. */
function renewals(names: SchemaNames): readonly string[] {
  return [
    ...views.map((view) => createView(view, names)),
    ...tables.flatMap((table) => commentsOf(table, "TABLE", names)),
    ...views.flatMap((view) => commentsOf(view, "VIEW", names)),
    ...commentsOfSchemas(names),
  ];
}

/** Only its owner, who may be an administrator, can comment on a schema. */
function commentsOfSchemas(names: SchemaNames): readonly string[] {
  const docs = {
    data: "People, and what the service reports about them (person-etl).",
    ops: "Runs, calls, costs and usage of person-etl; no personal data.",
    state: "The tables of person-etl itself, which nobody else needs.",
  };
  return (["data", "ops", "state"] as const).map(
    (name) =>
      `DO $comment$ BEGIN COMMENT ON SCHEMA ${quoteIdentifier(names[name])} IS ${quoteLiteral(docs[name])}; ` +
      "EXCEPTION WHEN insufficient_privilege THEN NULL; END $comment$",
  );
}

/** True if every migration of this version has run; later ones may exist. */
export async function isUpToDate({ pool, names }: Db): Promise<boolean> {
  if (!(await hasTables(pool, names))) return false;
  const { rows } = await pool.query<{ name: string }>(`SELECT name FROM ${migrationTable(names)}`);
  const ran = new Set(rows.map(({ name }) => name));
  return migrations.every(({ name }) => ran.has(name));
}

const MIN_VERSION = 13;

/** Refuses a server that is too old, and a database that can't hold every name. */
async function refuseUnsupported(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ version: number; encoding: string }>(
    "SELECT current_setting('server_version_num')::int / 10000 AS version, current_setting('server_encoding') AS encoding",
  );
  const [{ version, encoding } = { version: MIN_VERSION, encoding: "UTF8" }] = rows;
  if (version < MIN_VERSION)
    throw unsupported(`is Postgres ${version}`, `use Postgres ${MIN_VERSION} or newer`);
  if (encoding === "UTF8") return;
  throw unsupported(
    `has the encoding ${encoding}, which can't hold every name`,
    "create a database with ENCODING 'UTF8' TEMPLATE template0",
  );
}

function unsupported(message: string, hint: string): FixConfigurationError {
  const problems = [{ path: "warehouse.url", message, hint }];
  return new FixConfigurationError(
    "warehouse_unsupported",
    `The warehouse can't be used: it ${message}.`,
    problems,
  );
}

/** True if the first migration has run. Refuses tables of version 1, and unsupported databases. */
async function hasTables(pool: pg.Pool, names: SchemaNames): Promise<boolean> {
  await refuseUnsupported(pool);
  // The catalog is readable even without a privilege on the schema.
  const { rows } = await pool.query<{ schema: string; name: string }>(
    "SELECT schemaname AS schema, tablename AS name FROM pg_catalog.pg_tables WHERE tablename = ANY($1)",
    [[MIGRATION_TABLE, "person", "sync_run"]],
  );
  const has = (schema: string, table: string) =>
    rows.some((row) => row.schema === schema && row.name === table);
  if (!has(names.state, MIGRATION_TABLE) && has(names.ops, MIGRATION_TABLE)) throw versionOneError(names);
  const parts = [
    { name: names.data, isFilled: has(names.data, "person") },
    { name: names.ops, isFilled: has(names.ops, "sync_run") },
    { name: names.state, isFilled: has(names.state, MIGRATION_TABLE) },
  ];
  const filled = parts.filter(({ isFilled }) => isFilled).map(({ name }) => name);
  if (filled.length === 1 || filled.length === 2) {
    const others = parts.filter(({ isFilled }) => !isFilled).map(({ name }) => name);
    throw mixedError(filled, others);
  }
  return filled.length === parts.length;
}

function mixedError(filled: readonly string[], others: readonly string[]): FixConfigurationError {
  const message = `${filled.join(" and ")} ${filled.length === 1 ? "has" : "have"} tables of a warehouse, ${others.join(" and ")} not`;
  return new FixConfigurationError("schemas_mixed", `The schemas don't belong together: ${message}.`, [
    {
      path: "warehouse",
      message: `names schemas that don't belong together: ${message}`,
      hint: "change schema, ops_schema and state_schema together, or none of them",
    },
  ]);
}

function versionOneError(names: SchemaNames): FixConfigurationError {
  return new FixConfigurationError(
    "warehouse_too_old",
    `The tables in ${names.data} and ${names.ops} were created by version 1, which cannot be upgraded.`,
    [
      {
        path: "warehouse",
        message: `names the schemas of version 1: ${names.data} and ${names.ops}`,
        hint:
          "Choose new names for warehouse.schema, ops_schema and state_schema; the old tables stay readable. Responses received " +
          "with version 1 are not carried over: the first run sends every record again, within budgets. Or drop the old schemas.",
      },
    ],
  );
}

function createSchema(name: string): string {
  return `CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(name)}`;
}

/** Converts a missing privilege into an error that names the grants; returns other errors unchanged. */
async function explainMissingRight(db: Db, error: unknown): Promise<Error> {
  if (codeOf(error) !== "42501") {
    return error instanceof Error ? error : new Error(messageOf(error));
  }
  const lines = await checkDatabase(db);
  const problems = lines
    .filter((line) => !line.ok)
    .map(({ subject, message, hint }) => ({
      path: "warehouse",
      message: `${subject} ${message}`,
      ...(hint === undefined ? {} : { hint }),
    }));
  return new FixConfigurationError(
    "no_right_to_create",
    `Can't create the tables in ${schemaNamesOf(db.names).join(", ")}: ${messageOf(error)}.`,
    problems,
    { cause: error },
  );
}

/** DDL of an empty warehouse, printed by `migrate --print`. */
export function printDdl({ names, extraColumns }: Db): string {
  const all = [
    ...schemaNamesOf(names).map(createSchema),
    createMigrationTable(names),
    ...migrations.flatMap(({ name, statements, afterwards }) => [
      ...statements(names),
      ...(afterwards?.(names) ?? []),
      recordMigration(names, name),
    ]),
    ...renewals(names),
    ...addExtraColumns(extraColumns, names),
  ];
  return `${all.map((statement) => `${statement};`).join("\n\n")}\n`;
}

/** Longer texts give no derived value. */
const LONGEST = 100;

/** Fills derived columns of stored rows; readers see these rows, and their people, as changed. @param derivations by table */
async function fillDerived(
  session: PostgresSession,
  names: SchemaNames,
  derivations: ReadonlyMap<string, readonly Derivation[]>,
): Promise<void> {
  for (const [table, ofTable] of derivations) {
    for (const derivation of ofTable) await fillColumns(session, names, table, derivation);
    await session.change(sql`
      UPDATE ${tableId(names, "person")} SET _record_synced_at = now()
      WHERE service_pid IN (SELECT service_pid FROM ${tableId(names, table)} WHERE _synced_at = now())`);
  }
}

async function fillColumns(
  session: PostgresSession,
  schemas: SchemaNames,
  table: string,
  { from, columns, derive }: Derivation,
): Promise<void> {
  const target = tableId(schemas, table);
  const names = Object.keys(columns);
  const found = await session.pluck<string>(sql`
    SELECT DISTINCT ${sql.id(from)} FROM ${target} WHERE length(${sql.id(from)}) <= ${LONGEST}`);
  const derived = found
    .map((text) => ({ text, cells: derive(text) }))
    .filter(({ cells }) => cells.some((cell) => cell !== null));
  if (derived.length === 0) return;
  const values = derived.map(({ text, cells }) => ({
    text,
    ...Object.fromEntries(cells.map((cell, i) => [names[i], cell])),
  }));
  const types = Object.entries(columns).map(
    ([name, { type }]) => sql`${sql.id(name)} ${sql.raw(postgresTypes[type])}`,
  );
  const set = names.map((name) => sql`${sql.id(name)} = d.${sql.id(name)}`);
  await session.change(sql`
    UPDATE ${target} AS t SET ${sql.join(set)}, _synced_at = now()
    FROM json_to_recordset(${JSON.stringify(values)}::json) AS d(text text, ${sql.join(types)})
    WHERE t.${sql.id(from)} = d.text`);
}
