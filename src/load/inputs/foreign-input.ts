import { pipeline } from "node:stream/promises";
import { type RawBuilder, sql } from "kysely";
import { from as copyFrom } from "pg-copy-streams";
import { FixConfigurationError } from "../../errors.ts";
import { quoteIdentifier } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { ForeignDatabase, ForeignRows, Reading } from "./foreign-database.ts";
import { type InputColumn, type InputSource, narrowed, type Part } from "./input-source.ts";
import { describeColumns, finderOf, isInvalidText, keyIsUnique, raw, rawSelect } from "./input.ts";
import { partsRead } from "./mapped-columns.ts";

/** Keeps the planner from merging a subquery. OFFSET 0, an integer to convert, would also keep it from a parallel plan. */
export const FENCE = "OFFSET '0'";

/** Root or node of a plan whose subplan runs in parallel. */
const PARALLEL = /^\s*(?:->\s+)?Gather(?: Merge)? {2}\(cost=/u;

/**
 * Creates a temporary table with the result of a query that reads the input, and so contains SQL of the configuration. Postgres
 * refuses writes in a parallel plan; any other plan runs read-only.
 */
export async function createFromInput(
  session: Session,
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
  session: Session,
  input: InputSource,
  columns: readonly InputColumn[],
  { only: key, isCast }: Pick<Reading, "only" | "isCast">,
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

/** An opened input. */
export interface OpenedInput {
  /** Mapped columns that the job's endpoint takes. */
  readonly parts: readonly Part[];
  readonly keyIsUnique: boolean;
  /** Query for the raw rows inside the warehouse. */
  readonly rawRows: string;
}

/** Opens an input in the warehouse itself. */
export async function openLocalInput(
  session: Session,
  input: InputSource,
  reading: Reading,
): Promise<OpenedInput> {
  const opened = await session.readOnly(() => inspectInput(session, input, reading));
  return reading.among && "query" in reading.among ? stageRows(session, opened) : opened;
}

/**
 * Copies the rows into a temporary table first: the planner estimates them at half of the input, and would join them by reading every
 * state.
 */
async function stageRows(session: Session, opened: OpenedInput): Promise<OpenedInput> {
  // By that estimate, a parallel plan would cost too much, because its workers pass so many rows. The list of keys is estimated at
  // ten, so that a nested loop would seem cheap.
  await session.client.query("SET LOCAL parallel_tuple_cost = 0; SET LOCAL enable_nestloop = off");
  await createFromInput(session, "candidate_row", raw(opened.rawRows));
  await session.client.query(
    "SET LOCAL parallel_tuple_cost TO DEFAULT; SET LOCAL enable_nestloop TO DEFAULT",
  );
  return { ...opened, rawRows: "SELECT * FROM pg_temp.candidate_row" };
}

async function inspectInput(session: Session, input: InputSource, reading: Reading): Promise<OpenedInput> {
  const columns = await describeColumns(session, input);
  const parts = partsRead(input, reading, finderOf(columns));
  const isUnique = await keyIsUnique(session, input);
  const { ranked, hasFingerprint, among } = reading;
  const rows = await narrowToKey(session, input, columns, reading);
  const rawRows = rawSelect(rows, parts, columns, {
    ranked,
    hasFingerprint,
    among,
  });
  return { parts, keyIsUnique: isUnique, rawRows };
}

const TYPES = { text: "text", list: "text", number: "bigint", bytes: "bytea" } as const;

/**
 * Opens an input in another database: streams its raw rows into a temporary table of this transaction, so that
 * all further steps are the same as for an input in the warehouse. Constant memory.
 */
export async function openForeignInput(
  session: Session,
  database: ForeignDatabase,
  input: InputSource,
  reading: Reading,
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
export async function copyRows(session: Session, rows: ForeignRows, table: string): Promise<void> {
  await pipeline(rows.copyText(), session.client.query(copyFrom(`COPY pg_temp.${table} FROM STDIN`)));
}
