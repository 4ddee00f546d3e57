import type { Db } from "./db.ts";
import type { Cell } from "../../schemas/convert.ts";
import { copyRows } from "./copy.ts";
import { quoteIdentifier, quoteQualified } from "./names.ts";
import { type Session, withRolePath } from "./session.ts";
import type { InputSource } from "../inputs/input-source.ts";

const ROWS_PER_COPY = 5000;

/** Creates a table of sample rows, keyed by its first column, unless a relation of that name exists. */
export function createSampleTable(
  db: Db,
  input: InputSource,
  columns: readonly { readonly name: string; readonly type: "bigint" | "text" | "timestamptz" }[],
  rows: Iterable<readonly Cell[]>,
): Promise<boolean> {
  return db.transaction((session) => withRolePath(session, () => create(session, input, columns, rows)));
}

async function create(
  session: Session,
  input: InputSource,
  columns: readonly { readonly name: string; readonly type: "bigint" | "text" | "timestamptz" }[],
  rows: Iterable<readonly Cell[]>,
): Promise<boolean> {
  if (!("table" in input.relation)) return false;
  const name = quoteQualified(input.relation.table);
  const { rows: found } = await session.client.query<{ oid: string | null }>(
    "SELECT to_regclass($1)::text AS oid",
    [name],
  );
  if (found[0]?.oid) return false;
  const schema = input.relation.table.length > 1 ? input.relation.table[0] : undefined;
  if (schema !== undefined)
    await session.client.query(`CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(schema)}`);
  const key = input.key.map(quoteIdentifier).join(", ");
  const list = columns.map((c) => `${quoteIdentifier(c.name)} ${c.type}`).join(", ");
  // Of processes that start at the same time, such as shards, the first one fills it: the others wait here, conflict with its rows,
  // and find it when the transaction is tried again.
  await session.client.query(`CREATE TABLE IF NOT EXISTS ${name} (${list}, PRIMARY KEY (${key}))`);
  let page: (readonly Cell[])[] = [];
  const names = columns.map((c) => c.name);
  for (const row of rows) {
    page.push(row);
    if (page.length < ROWS_PER_COPY) continue;
    await copyRows(session, name, names, page);
    page = [];
  }
  await copyRows(session, name, names, page);
  return true;
}
