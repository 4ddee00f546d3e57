import { sql } from "kysely";
import { from as copyFrom } from "pg-copy-streams";
import { crashPoint } from "../../crash-point.ts";
import type { Db } from "./db.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified, tableText } from "./names.ts";
import { type Session, withRolePath } from "./session.ts";
import type { InputSource } from "../inputs/input.ts";
import type { LoadContext } from "../lookups/lookup.ts";
import { type EncodedPerson, encodeRows, joinRows, type ListGroup } from "../lookups/person-groups.ts";
import type { Cell } from "../../schemas/convert.ts";

/** COPYs the rows of one nested list of several persons into its table. @param groupIndex in `groupNames` */
export async function copyList(
  { session, touch }: LoadContext,
  { table, columns }: ListGroup,
  groupIndex: number,
  persons: readonly EncodedPerson[],
): Promise<void> {
  const rows = joinRows(persons, groupIndex);
  const copied = await copyEncoded(session, tableText(session.names, table), columns, rows);
  if (copied > 0) touch(table, copied);
}

/** COPYs encoded rows and returns their number; does nothing without rows. `target` is quoted. */
export async function copyEncoded(
  session: Session,
  target: string,
  columns: readonly string[],
  encoded: Buffer,
): Promise<number> {
  if (encoded.length === 0) return 0;
  const list = columns.map(quoteIdentifier).join(", ");
  crashPoint("before_copy");
  const stream = session.client.query(copyFrom(`COPY ${target} (${list}) FROM STDIN`));
  try {
    await new Promise<void>((resolve, reject) => {
      stream.on("error", reject);
      stream.on("finish", resolve);
      stream.end(encoded);
    });
  } catch (error) {
    // The stack of the driver's error begins at its socket; the callers are here.
    if (error instanceof Error) Error.captureStackTrace(error);
    throw error;
  }
  crashPoint("after_copy");
  return stream.rowCount;
}

const ROWS_PER_COPY = 5000;

/** COPYs rows, some thousands at a time. `target` is quoted. */
export async function copyRows(
  session: Session,
  target: string,
  columns: readonly string[],
  rows: Iterable<readonly Cell[]>,
): Promise<void> {
  let page: (readonly Cell[])[] = [];
  for (const row of rows) {
    page.push(row);
    if (page.length < ROWS_PER_COPY) continue;
    await copyEncoded(session, target, columns, encodeRows(page));
    page = [];
  }
  await copyEncoded(session, target, columns, encodeRows(page));
}

/** Comment of a table of sample rows: their number and hash, by which they are recognized until somebody changes one. */
const sampleComment = (rows: number, hash: string) =>
  `Sample rows of invented people, created by person-etl for its sandbox (${rows} rows, ${hash}).`;

const SAMPLE_COMMENT = /^Sample rows of invented people, .* \((\d+) rows, ([0-9a-f]{64})\)\.$/u;

/** A table that was created with sample rows. */
export interface SampleTable {
  /** Quoted. */
  readonly name: string;
  /** False if it has other rows or columns by now, which are the user's. */
  readonly isUnchanged: boolean;
}

/** Reads the quoted name and the comment of an input's table; null if there is none. */
async function describeTable(session: Session, { relation }: Pick<InputSource, "relation">) {
  if (!("table" in relation)) return null;
  const name = quoteQualified(relation.table);
  const [found] = await withRolePath(session, () =>
    session.rows<{ name: string; comment: string | null }>(sql`
      SELECT format('%I.%I', n.nspname, c.relname) AS name, obj_description(c.oid, 'pg_class') AS comment
      FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      WHERE c.oid = to_regclass(${name}) AND c.relkind = 'r'`),
  );
  return found ?? null;
}

/** Hash of all rows of a table, in any order. `table` is quoted. */
async function hashRows(session: Session, table: string): Promise<string> {
  const [hash = ""] = await session.pluck<string>(sql`
    SELECT encode(sha256(convert_to(coalesce(string_agg(r.hash, '' ORDER BY r.hash COLLATE "C"), ''), 'UTF8')), 'hex')
    FROM (SELECT encode(sha256(convert_to(t::text, 'UTF8')), 'hex') AS hash FROM ${sql.raw(table)} AS t) AS r`);
  return hash;
}

/** Finds the tables of sample rows among those of inputs. */
export async function findSampleTables(
  session: Session,
  sources: readonly Pick<InputSource, "relation">[],
): Promise<readonly SampleTable[]> {
  const found = new Map<string, SampleTable>();
  for (const source of sources) {
    const table = await describeTable(session, source);
    const [, rows, hash] = SAMPLE_COMMENT.exec(table?.comment ?? "") ?? [];
    if (table === null || rows === undefined) continue;
    const { name } = table;
    // A table that is large by now isn't read.
    const [present] = await session.pluck<number>(
      sql`SELECT count(*)::int FROM (SELECT FROM ${sql.raw(name)} LIMIT ${Number(rows) + 1}) AS t`,
    );
    const isUnchanged = present === Number(rows) && (await hashRows(session, name)) === hash;
    found.set(name, { name, isUnchanged });
  }
  return [...found.values()];
}

/** True if a table has only sample rows, which only the sandbox knows. */
export async function isSampleTable(db: Db, source: Pick<InputSource, "relation">): Promise<boolean> {
  const [found] = await db.transaction((session) => findSampleTables(session, [source]));
  return found?.isUnchanged ?? false;
}

/** Creates a table of sample rows, keyed by its first column, unless a relation of that name exists. */
export function createSampleTable(
  db: Db,
  { relation, key }: InputSource,
  columns: readonly { readonly name: string; readonly type: "bigint" | "text" | "timestamptz" }[],
  rows: Iterable<readonly Cell[]>,
): Promise<boolean> {
  const create = async (session: Session): Promise<boolean> => {
    if (!("table" in relation)) return false;
    const name = quoteQualified(relation.table);
    const [found] = await session.pluck<string | null>(sql`SELECT to_regclass(${name})::text`);
    if (found) return false;
    const [schema] = relation.table.length > 1 ? relation.table : [];
    if (schema !== undefined) {
      await session.client.query(`CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(schema)}`);
    }
    const list = columns.map((c) => `${quoteIdentifier(c.name)} ${c.type}`).join(", ");
    const keys = key.map(quoteIdentifier).join(", ");
    // Of processes that start at the same time, such as shards, the first one fills it: the others wait here, conflict with its rows,
    // and find it when the transaction is tried again.
    await session.client.query(`CREATE TABLE IF NOT EXISTS ${name} (${list}, PRIMARY KEY (${keys}))`);
    const names = columns.map((c) => c.name);
    await copyRows(session, name, names, rows);
    return true;
  };
  return db.transaction(async (session) => {
    const isNew = await withRolePath(session, () => create(session));
    const table = isNew ? await describeTable(session, { relation }) : null;
    if (table === null) return isNew;
    const { name } = table;
    const [count = 0] = await session.pluck<number>(sql`SELECT count(*)::int FROM ${sql.raw(name)}`);
    const comment = quoteLiteral(sampleComment(count, await hashRows(session, name)));
    await session.client.query(`COMMENT ON TABLE ${name} IS ${comment}`);
    return isNew;
  });
}
