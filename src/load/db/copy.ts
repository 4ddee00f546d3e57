import { from as copyFrom } from "pg-copy-streams";
import { crashPoint } from "../../crash-point.ts";
import type { Db } from "./db.ts";
import { quoteIdentifier, quoteQualified, tableText } from "./names.ts";
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

/** COPYs rows. `target` is quoted. */
export async function copyRows(
  session: Session,
  target: string,
  columns: readonly string[],
  rows: readonly (readonly Cell[])[],
): Promise<void> {
  await copyEncoded(session, target, columns, encodeRows(rows));
}

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
