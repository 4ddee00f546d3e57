import { type RawBuilder, sql } from "kysely";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import type { Db } from "../db/db.ts";
import { explained, explainFailure, explainWriting } from "../db/failures.ts";
import { quoteIdentifier } from "../db/names.ts";
import { inTransaction, openPool, type PostgresSession, withRolePath } from "../db/session.ts";
import { normalizedAddress, partsOf, partsRead, sentColumns } from "./columns.ts";
import {
  type InputConnection,
  type InputDatabase,
  type InputRows,
  type Identifiers,
  type InputColumn,
  type InputSample,
  type InputSource,
  type NamingRow,
  narrowed,
  type MappedColumn,
  PUSH_QUERY,
  type InputQuery,
  rowColumns,
} from "./input.ts";
import { checksIn } from "./postgres-profile.ts";
import { describeColumns, finderOf, isInvalidText, keyIsUnique, rawSelect, READING } from "./postgres.ts";
import { type KeyColumn, type KeyType, linkColumnName } from "../../schemas/views/link-input.ts";

/** Root or node of a plan whose subplan runs in parallel. */
const PARALLEL = /^\s*(?:->\s+)?Gather(?: Merge)? {2}\(cost=/u;

/**
 * Creates a temporary table with the result of a query that reads the input, and so contains SQL of the configuration. Postgres
 * refuses writes in a parallel plan; any other plan runs read-only.
 */
export async function createFromInput(
  session: PostgresSession,
  table: string,
  query: RawBuilder<unknown>,
): Promise<void> {
  const create = sql`CREATE TEMP TABLE ${sql.id(table)} ON COMMIT DROP AS ${query}`;
  const plan = await session.readOnly(() =>
    session.rows(sql<{ readonly "QUERY PLAN": string }>`EXPLAIN ${query}`),
  );
  if (plan.some((line) => PARALLEL.test(line["QUERY PLAN"]))) {
    await session.change(create);
  } else {
    await session.change(sql`${create} WITH NO DATA`);
    await session.readOnly(() => session.change(sql`INSERT INTO pg_temp.${sql.id(table)} ${query}`));
  }
  // The planner needs the number of rows; without it, later statements take minutes. A larger sample takes longer than it saves.
  await session.client.query(`SET LOCAL default_statistics_target = 10; ANALYZE pg_temp.${table}`);
}

/** Without its length, `character` means a single one. */
const UNBOUNDED: Readonly<Record<string, string>> = { character: "bpchar", bit: "varbit" };

/**
 * Narrows an input to the rows with a key, or replaces it by the key in the columns' types. Compares the columns themselves, so
 * that an index is used. The values are settings of the transaction, because a COPY takes no parameters.
 */
async function narrowToKey(
  session: PostgresSession,
  input: InputSource,
  columns: readonly InputColumn[],
  { only: key, isCast }: Pick<InputQuery, "only" | "isCast">,
): Promise<InputSource> {
  if (!key) return input;
  const values: { readonly column: string; readonly value: string }[] = [];
  for (const [i, name] of input.key.entries()) {
    const setting = `person_etl.key_${i}`;
    const typeName = columns.find((column) => column.name === name)?.typeName ?? "text";
    const value = `current_setting('${setting}')::${UNBOUNDED[typeName] ?? typeName}`;
    await session.rows(sql`SELECT set_config(${setting}, ${key[i] ?? ""}, true)`);
    try {
      await session.rows(sql.raw(`SELECT ${value}`));
    } catch (error) {
      if (!isInvalidText(error)) throw error;
      throw notAKey(input, name, typeName);
    }
    values.push({ column: quoteIdentifier(name), value });
  }
  if (isCast) {
    const cast = values.map(({ column, value }) => `${value} AS ${column}`);
    return { ...input, relation: { sql: `SELECT ${cast.join(", ")}` }, where: null };
  }
  return narrowed(input, values.map(({ column, value }) => `input_row.${column} = ${value}`).join(" AND "));
}

function notAKey({ name }: InputSource, column: string, typeName: string): FixConfigurationError {
  return new FixConfigurationError(
    "bad_key",
    `The key can't be one of the input ${name}: its column ${column} is of type ${typeName}, and the given text is no such value.`,
  );
}

export interface OpenedInput {
  /** Mapped columns that the job's endpoint takes. */
  readonly parts: readonly MappedColumn[];
  readonly keyIsUnique: boolean;
  /** Query for the raw rows inside the warehouse. */
  readonly rawRows: string;
}

/** Opens an input in the warehouse itself. */
export async function openLocalInput(
  session: PostgresSession,
  input: InputSource,
  reading: InputQuery,
): Promise<OpenedInput> {
  const opened = await session.readOnly(() => inspectInput(session, input, reading));
  return reading.among && "query" in reading.among ? stageRows(session, opened) : opened;
}

/**
 * Copies the rows into a temporary table first: the planner estimates them at half of the input, and would join them by reading every
 * state.
 */
async function stageRows(session: PostgresSession, opened: OpenedInput): Promise<OpenedInput> {
  // By that estimate, a parallel plan would cost too much, because its workers pass so many rows. The list of keys is estimated at
  // ten, so that a nested loop would seem cheap.
  await session.client.query("SET LOCAL parallel_tuple_cost = 0; SET LOCAL enable_nestloop = off");
  await createFromInput(session, "candidate_row", sql.raw(opened.rawRows));
  await session.client.query(
    "SET LOCAL parallel_tuple_cost TO DEFAULT; SET LOCAL enable_nestloop TO DEFAULT",
  );
  return { ...opened, rawRows: "SELECT * FROM pg_temp.candidate_row" };
}

async function inspectInput(
  session: PostgresSession,
  input: InputSource,
  reading: InputQuery,
): Promise<OpenedInput> {
  const columns = await describeColumns(session, input);
  const parts = partsRead(input, reading, finderOf(columns));
  const isUnique = await keyIsUnique(session, input);
  const rows = await narrowToKey(session, input, columns, reading);
  return { parts, keyIsUnique: isUnique, rawRows: rawSelect(rows, parts, columns, reading) };
}

const TYPES = { text: "text", list: "text", number: "bigint", bytes: "bytea" } as const;

/**
 * Opens an input in another database: streams its raw rows into a temporary table of this transaction, so that
 * all further steps are the same as for an input in the warehouse. Constant memory.
 */
export async function openForeignInput(
  session: PostgresSession,
  database: InputDatabase,
  input: InputSource,
  reading: InputQuery,
): Promise<OpenedInput> {
  return database.read(input, reading, async (rows) => {
    const columns = rows.columns.map(({ name, type }) => `${name} ${TYPES[type]}`);
    const table = reading.isWithoutValues ? "foreign_key" : "foreign_row";
    await session.client.query(`CREATE TEMP TABLE ${table} (${columns.join(", ")}) ON COMMIT DROP`);
    const isEmpty = reading.among && "keys" in reading.among && reading.among.keys.length === 0;
    if (!isEmpty) await copyRows(session, rows, table);
    await session.client.query(`ANALYZE pg_temp.${table}`);
    return { ...rows, rawRows: `SELECT * FROM pg_temp.${table}` };
  });
}

/** Copies rows of another database into a temporary table. */
async function copyRows(session: PostgresSession, rows: InputRows, table: string): Promise<void> {
  await pipeline(rows.copyText(), session.client.query(copyFrom(`COPY pg_temp.${table} FROM STDIN`)));
}

/** Checks of an input, wherever it is. */
const checksOf = (db: Db, input: InputSource) => db.foreignOf(input) ?? checksIn(db.pool, db.explain);

/** Wraps a failure of the warehouse that receives rows, so that it isn't attributed to the input's database. */
class OtherSide extends Error {
  override readonly name = "OtherSide";
}

/** Opens a Postgres database that inputs are read from; connects on first use. */
export function openPostgresDatabase(
  target: Extract<InputConnection, { readonly type: "postgres" }>,
): InputDatabase {
  const pool = openPool(target, 2);
  const place = { name: `Connection ${target.name}`, path: `connections.${target.name}.url` };
  const explain = (error: unknown) => explainFailure(explainWriting(error), place);
  const explainOwn = (error: unknown) => (error instanceof OtherSide ? error.cause : explain(error));
  const reading = <Result>(work: (session: PostgresSession) => Promise<Result>) =>
    explained(explainOwn, () => inTransaction(pool, work, READING));
  return {
    ...checksIn(pool, explain),
    read: (input, query, work) =>
      reading(async (session) => {
        const opened = await openLocalInput(session, input, query);
        // COPY has no extended protocol: the rows must be those of one statement.
        await session.rows(sql.raw(`EXPLAIN ${opened.rawRows}`));
        const columns = rowColumns(input, opened.parts, query);
        async function* chunks(): AsyncGenerator<Buffer> {
          const stream = session.client.query(copyTo(`COPY (${opened.rawRows}) TO STDOUT`));
          try {
            for await (const chunk of stream) yield chunk as Buffer; // The driver sends buffers.
          } catch (error) {
            throw explain(error);
          }
        }
        const copyText = () => Readable.from(chunks(), { objectMode: false });
        return work({ ...opened, columns, copyText }).catch((cause: unknown) => {
          throw new OtherSide("the warehouse", { cause });
        });
      }),
    findRows: (input, wanted) => reading((session) => findRows(session, input, wanted)),
    close: () => pool.end(),
  };
}

/** Finds the rows of an input with one of these keys, addresses or PIDs; scans the input once. */
export async function findRows(
  session: PostgresSession,
  input: InputSource,
  wanted: Identifiers,
): Promise<readonly NamingRow[]> {
  const keys = wanted.rows.filter(({ source }) => source === input.name).map(({ sourceKey }) => sourceKey);
  if (keys.length + wanted.emails.length + wanted.pids.length === 0) return [];
  const columns = await describeColumns(session, input);
  const parts = partsOf(input, "enrich", finderOf(columns));
  const rows = rawSelect(input, parts, columns, { ranked: false });
  const sent = sentColumns(parts, input);
  const lists = (field: string) =>
    parts
      .filter((part) => part.field === field)
      .map((part) => (part.isArray ? part.name : `array_remove(ARRAY[${part.name}], NULL)`));
  const emails = [...lists("emails"), "'{}'::text[]"].join(" || ");
  const pids = [...lists("service_pid"), "'{}'::text[]"].join(" || ");
  return session.rows<NamingRow>(sql`
    WITH raw_row AS (${sql.raw(rows)})
    SELECT source_key AS "sourceKey", emails, pids
    FROM (SELECT source_key, ${sql.raw(emails)} AS emails, ${sql.raw(pids)} AS pids
      FROM (SELECT ${sql.raw(["source_key", ...sent.columns].join(", "))} FROM ${sql.raw(sent.from)} OFFSET 0) AS u
      OFFSET 0) AS f
    WHERE source_key IN (SELECT unnest(${keys}::text[]))
      OR EXISTS (SELECT FROM unnest(emails) AS e(e)
        WHERE ${sql.raw(normalizedAddress("e"))} IN (SELECT unnest(${[...wanted.emails]}::text[])))
      OR EXISTS (SELECT FROM unnest(pids) AS p(p) WHERE p IN (SELECT unnest(${[...wanted.pids]}::text[])))`);
}

/** Reads the keys of a query into the temporary table `key_row (source_key text)`, whatever database it runs in. */
export async function stageKeys(db: Db, session: PostgresSession, source: InputSource): Promise<void> {
  await session.client.query("CREATE TEMP TABLE key_row (source_key text) ON COMMIT DROP");
  const foreign = db.foreignOf(source);
  if (foreign) {
    await foreign.read(source, PUSH_QUERY, (rows) => copyRows(session, rows, "key_row"));
    return;
  }
  await withRolePath(session, () =>
    session.readOnly(async () => {
      const columns = await describeColumns(session, source);
      const rows = rawSelect(source, [], columns, { ranked: false });
      await session.change(sql`INSERT INTO pg_temp.key_row ${sql.raw(rows)}`);
    }),
  );
}

/** Reads the distinct keys of a query, in order; null and blank ones are left out. */
export async function readKeys(db: Db, source: InputSource): Promise<readonly string[]> {
  return db.transaction(async (session) => {
    await stageKeys(db, session, source);
    return session.pluck<string>(sql`
      SELECT DISTINCT btrim(source_key) FROM pg_temp.key_row WHERE btrim(source_key) <> '' ORDER BY 1`);
  });
}

/** Declared types of Postgres's and BigQuery's types, by their own names. */
const keyTypes: Readonly<Record<string, KeyType>> = {
  smallint: "integer",
  integer: "integer",
  bigint: "integer",
  INT64: "integer",
  uuid: "uuid",
  date: "date",
  DATE: "date",
  "timestamp without time zone": "timestamp",
  DATETIME: "timestamp",
  "timestamp with time zone": "timestamptz",
  TIMESTAMP: "timestamptz",
};

/** Reads the types of an input's key columns, which exist; reads no rows. */
export async function describeKey(db: Db, input: InputSource): Promise<readonly KeyColumn[]> {
  const columns = await checksOf(db, input).describe(input);
  return input.key.map((name) => {
    const isLike = (column: InputColumn) => column.name.toLowerCase() === name.toLowerCase();
    const found = columns.find((column) => column.name === name) ?? columns.find(isLike);
    return { name: linkColumnName(name), type: keyTypes[found?.typeName ?? ""] ?? "text" };
  });
}

/** Returns problems of an input's table, query, columns or types; reads no rows. */
export async function checkInput(db: Db, input: InputSource): Promise<readonly Problem[]> {
  return checksOf(db, input).checkInput(input);
}

/** Counts keys of an input, and reads a sample of its rows; changes nothing. */
export async function sampleInput(db: Db, input: InputSource): Promise<InputSample> {
  return checksOf(db, input).sampleInput(input);
}
