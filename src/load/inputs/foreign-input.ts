import { partsRead } from "./mapped-columns.ts";
import { pipeline } from "node:stream/promises";
import { from as copyFrom } from "pg-copy-streams";
import { createFromInput } from "./create-from-input.ts";
import type { ForeignDatabase, ForeignRows, Reading } from "./foreign-database.ts";
import type { InputSource, Part } from "./input-source.ts";
import { narrowToKey } from "./one-row.ts";
import { describeColumns, keyIsUnique, finderOf, raw, rawSelect } from "./input.ts";
import type { Session } from "../db/session.ts";

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
