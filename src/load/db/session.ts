import { type Compilable, type QueryCreator, type RawBuilder, sql } from "kysely";
import { type CustomTypesConfig, types as defaultTypes, Pool, type PoolClient } from "pg";
import { codeOf, StopRunError } from "../../errors.ts";
import { clientFor, type PostgresTarget, settingsOf } from "./connect.ts";
import { explainWriting, READ_ONLY } from "./failures.ts";
import { compiler, type SchemaNames } from "./names.ts";
import type { Database } from "../../schemas/registry.ts";
import { type OpenTransaction, watchConnection } from "./watch-connection.ts";

/** SQL text, or a query of {@link Session.query}, whose rows have the types of its columns. */
type Statement<Row> = RawBuilder<Row> | Compilable<Row>;

/** A connection to any Postgres database inside a transaction. */
export interface PostgresSession {
  rows<Row>(statement: Statement<Row>): Promise<Row[]>;
  /** Runs a statement that always returns a row, such as a query of aggregates. */
  one<Row>(statement: Statement<Row>): Promise<Row>;
  /** Runs a statement and returns the first column of its rows. */
  pluck<Value>(statement: Statement<Readonly<Record<string, Value>>>): Promise<Value[]>;
  /** Runs a statement and returns the number of changed rows. */
  change(statement: Statement<unknown>): Promise<number>;
  /** Returns names and types of a statement's columns; runs it. */
  columns(
    statement: RawBuilder<unknown>,
  ): Promise<readonly { readonly name: string; readonly oid: number }[]>;
  /** Runs work that can write nothing but temporary tables: reading with SQL of the configuration. */
  readOnly<Result>(work: () => Promise<Result>): Promise<Result>;
  /** The driver's connection, for COPY. */
  readonly client: PoolClient;
  /** Transaction time as text; `_synced_at` of all its rows. */
  readonly now: string;
}

export interface Naming {
  readonly names: SchemaNames;
  /** Qualified name of a declared table or view, quoted. */
  readonly table: (name: string) => RawBuilder<unknown>;
  /** Builds queries on declared tables and views, named `SCHEMA.NAME` with the declared schema. */
  readonly query: QueryCreator<Database>;
}

/** A connection to the place of record inside a transaction. */
export type Session = PostgresSession & Naming;

/** Search path of our own statements: an object that another role creates can't replace a built-in one. */
const PINNED_PATH = "SET LOCAL search_path = pg_catalog, pg_temp";

/**
 * Settings of one transaction. They fix how values become text, so that keys and hashes are equal for every role, database
 * and pooler, and the durability of a commit.
 */
const PINNED = [
  "SET LOCAL TimeZone = 'UTC'",
  "SET LOCAL DateStyle = 'ISO, YMD'",
  "SET LOCAL IntervalStyle = 'postgres'",
  "SET LOCAL extra_float_digits = 1",
  "SET LOCAL bytea_output = 'hex'",
  "SET LOCAL array_nulls = on",
  "SET LOCAL lc_monetary = 'C'",
  "SET LOCAL standard_conforming_strings = on",
  "SET LOCAL client_encoding = 'UTF8'",
  "SET LOCAL jit = off",
  // A role's limits would end long statements, and waits of ours that have limits of their own.
  "SET LOCAL statement_timeout = 0",
  "SET LOCAL lock_timeout = 0",
  "SET LOCAL idle_in_transaction_session_timeout = 0",
  // New in Postgres 17.
  "SELECT set_config('transaction_timeout', '0', true) WHERE current_setting('transaction_timeout', true) IS NOT NULL",
  // Values are people's data.
  "SET LOCAL log_parameter_max_length_on_error = 0",
  PINNED_PATH,
  // Commits before a call is sent, or before a received answer is deleted, must survive a crash of the server.
  "SET LOCAL synchronous_commit = on",
].join("; ");

/** Queries the transaction time and the backend in the same round trip. */
const NOW = "SELECT now()::text AS now, pg_backend_pid() AS pid";

function lastRow(results: unknown): OpenTransaction {
  // For several statements the driver returns a list of results; its types omit that.
  const [row] = (results as readonly { readonly rows: readonly OpenTransaction[] }[]).at(-1)?.rows ?? [];
  return row ?? { now: "", pid: 0 };
}

const INT8 = 20;
const DATE = 1082;
const TIMESTAMP = 1114;
const TIMESTAMPTZ = 1184;

/** Converts `2026-11-21 04:00:00.1+00` to `2026-11-21T04:00:00.1Z`. */
function readInstant(text: string): string {
  return text.replace(" ", "T").replace(/\+00$/, "Z");
}

/** Parses 64-bit counters as numbers, dates and times as text: a Date would truncate microseconds. */
const types: CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: "text" | "binary") => {
    if (oid === INT8) return Number;
    if (oid === TIMESTAMPTZ) return readInstant;
    if (oid === DATE || oid === TIMESTAMP) return (text: string) => text;
    return format === "binary" ? defaultTypes.getTypeParser(oid, "binary") : defaultTypes.getTypeParser(oid);
    // The cast covers the overloads of getTypeParser, which differ only in the format.
  }) as typeof defaultTypes.getTypeParser,
};

/** Opens a pool; connects on first use. Without `queryMs`, queries are unlimited. */
export function openPool(
  target: PostgresTarget,
  connections: number,
  { connectMs = 15_000, queryMs }: { readonly connectMs?: number; readonly queryMs?: number } = {},
): Pool {
  const pool = new Pool({
    ...settingsOf(target),
    Client: clientFor(target),
    max: connections,
    types,
    connectionTimeoutMillis: connectMs,
    ...(queryMs === undefined ? {} : { query_timeout: queryMs }),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  });
  // A broken idle connection is replaced on next use; without a listener it would end the process.
  pool.on("error", () => {});
  return pool;
}

function sessionOf(client: PoolClient, now: string): PostgresSession {
  const query = (statement: Statement<unknown>) => {
    const { sql, parameters } = statement.compile(compiler);
    // The extended protocol takes one statement only: SQL of the configuration can't add another one.
    const extended = { text: sql, values: [...parameters], queryMode: "extended" };
    return client.query(extended);
  };
  return {
    client,
    now,
    async rows<Row>(statement: Statement<Row>) {
      // The caller declares the row type of SQL text.
      return (await query(statement)).rows as Row[];
    },
    async one<Row>(statement: Statement<Row>) {
      const [row] = (await query(statement)).rows;
      if (row === undefined) throw new Error("A statement that always returns a row returned none.");
      return row as Row;
    },
    async pluck<Value>(statement: Statement<Readonly<Record<string, Value>>>) {
      const { rows } = await query(statement);
      return rows.map((row) => Object.values(row)[0] as Value);
    },
    async change(statement) {
      return (await query(statement)).rowCount ?? 0;
    },
    async columns(statement) {
      return (await query(statement)).fields.map(({ name, dataTypeID: oid }) => ({ name, oid }));
    },
    async readOnly(work) {
      await client.query("SAVEPOINT read_only; SET LOCAL transaction_read_only = on");
      const result = await work().catch(rethrow);
      // The transaction is as before; temporary tables keep their rows.
      await client.query("RELEASE SAVEPOINT read_only");
      return result;
    },
  };
}

/** Rethrows an error of statements that may only read. */
function rethrow(error: unknown): never {
  throw explainWriting(error);
}

/** Runs statements with SQL of the user: its unqualified names are resolved by the search path of the role. */
export async function withRolePath<Result>(
  session: PostgresSession,
  work: () => Promise<Result>,
): Promise<Result> {
  await session.client.query("SET LOCAL search_path TO DEFAULT");
  const result = await work();
  await session.client.query(PINNED_PATH);
  return result;
}

export interface TransactionOptions {
  /** False: always rolled back. */
  readonly keep?: boolean;
  /** True: writes nothing but temporary tables. */
  readonly isReadOnly?: boolean;
  /** True for REPEATABLE READ: all statements see one snapshot. */
  readonly isSnapshot?: boolean;
  /** More settings of the transaction; all LOCAL, because a pooler reuses the session. */
  readonly settings?: readonly `SET LOCAL ${string}`[];
}

/** Runs `work` in one transaction with fixed settings; rolls back if it throws. */
export async function inTransaction<Result>(
  pool: Pool,
  work: (session: PostgresSession) => Promise<Result>,
  { keep = true, isSnapshot = false, isReadOnly = false, settings = [] }: TransactionOptions = {},
): Promise<Result> {
  const client = await pool.connect();
  let broken: Error | boolean = false;
  // An error between statements surfaces at the next one; the listener keeps it from ending the process.
  const onError = (error: Error) => {
    broken = error;
  };
  client.on("error", onError);
  const watch = watchConnection(pool, client);
  try {
    const isolation = `${isSnapshot ? "REPEATABLE READ" : "READ COMMITTED"}${isReadOnly ? " READ ONLY" : ""}`;
    const begin = [`BEGIN ISOLATION LEVEL ${isolation}`, PINNED, ...settings, NOW].join("; ");
    const results: unknown = await client.query(begin);
    const begun = lastRow(results);
    watch.begun(begun);
    const working = work(sessionOf(client, readInstant(begun.now)));
    const result = await (isReadOnly ? working.catch(rethrow) : working);
    await client.query(keep ? "COMMIT" : "ROLLBACK");
    return result;
  } catch (error) {
    // After a failover the address may lead to another server.
    if (codeOf(error) === READ_ONLY) broken = true;
    try {
      await client.query("ROLLBACK");
    } catch {
      broken = true;
    }
    throw error;
  } finally {
    watch.stop();
    client.removeListener("error", onError);
    client.release(broken);
  }
}

/** A lock that other processes may hold. Never an advisory lock, which every role of the database can take. */
export interface LockWait {
  /** Statement that takes the lock until the end of the transaction; readers have no right to it. */
  readonly take: RawBuilder<unknown>;
  /** Query for the `pid` of the sessions that hold it. */
  readonly holders: RawBuilder<unknown>;
  /** Intention, for the message: `migrating the warehouse`. */
  readonly purpose: string;
  /** Code of the error at the end of the wait. */
  readonly code?: string;
  readonly timeout?: string;
}

/** SQLSTATE of a lock wait that timed out. */
const LOCK_NOT_AVAILABLE = "55P03";

/** Takes a lock; a StopRunError names the session that still holds it after a time. */
export async function waitForLock(
  session: PostgresSession,
  { take, holders, purpose, code = "lock_held", timeout = "30s" }: LockWait,
): Promise<void> {
  await session.client.query(`SAVEPOINT lock_wait; SET LOCAL lock_timeout = '${timeout}'`);
  try {
    await session.rows(take);
  } catch (error) {
    if (codeOf(error) !== LOCK_NOT_AVAILABLE) throw error;
    await session.client.query("ROLLBACK TO SAVEPOINT lock_wait");
    const found = await session.rows<{ pid: number; role: string; name: string | null }>(sql`
      SELECT pid, usename AS role, application_name AS name FROM pg_catalog.pg_stat_activity
      WHERE pid IN (${holders}) AND pid <> pg_backend_pid() ORDER BY pid`);
    const who = found.map(({ pid, role, name }) => `${pid} (role ${role}, application ${name ?? "unknown"})`);
    throw new StopRunError(
      code,
      `Waited ${timeout} for a lock for ${purpose}; ${who.length === 0 ? "another session" : `session ${who.join(", ")}`} has it. ` +
        "If that process isn't working, end its session with `SELECT pg_terminate_backend(PID)`, and run again.",
      { cause: error },
    );
  }
  await session.client.query("SET LOCAL lock_timeout = 0; RELEASE SAVEPOINT lock_wait");
}

/** Lock of a table, besides its readers. */
export function tableLock(schema: string, table: string): Pick<LockWait, "take" | "holders"> {
  const name = sql.id(schema, table);
  return {
    take: sql`LOCK TABLE ${name} IN SHARE ROW EXCLUSIVE MODE`,
    holders: sql`SELECT l.pid FROM pg_catalog.pg_locks AS l
      JOIN pg_catalog.pg_class AS c ON c.oid = l.relation JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      WHERE l.granted AND n.nspname = ${schema} AND c.relname = ${table} AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
        AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`,
  };
}

/** Table of the migrations that ran. */
export const MIGRATION_TABLE = "schema_migration";

/** Lock of every change of tables and views. */
export const migrationLock = (names: SchemaNames) => tableLock(names.state, MIGRATION_TABLE);
