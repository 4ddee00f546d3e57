import { sql } from "kysely";
import type { Derivation } from "../../schemas/derive.ts";
import { postgresTypes } from "./ddl.ts";
import { type SchemaNames, tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** Longer texts give no derived value. */
const LONGEST = 100;

/** Fills derived columns of stored rows; readers see these rows, and their people, as changed. @param derivations by table */
export async function fillDerived(
  session: Session,
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
  session: Session,
  names: SchemaNames,
  table: string,
  { from, columns, derive }: Derivation,
): Promise<void> {
  const target = tableId(names, table);
  const found = await session.rows<{ text: string }>(sql`
    SELECT DISTINCT ${sql.id(from)} AS text FROM ${target} WHERE length(${sql.id(from)}) <= ${LONGEST}`);
  const derived = found
    .map(({ text }) => ({ text, cells: derive(text) }))
    .filter(({ cells }) => cells.some((cell) => cell !== null));
  if (derived.length === 0) return;
  const values = derived.map(({ text, cells }) => ({
    text,
    ...Object.fromEntries(cells.map((cell, i) => [columns[i]?.name, cell])),
  }));
  const types = columns.map(({ name, type }) => sql`${sql.id(name)} ${sql.raw(postgresTypes[type])}`);
  const set = columns.map(({ name }) => sql`${sql.id(name)} = d.${sql.id(name)}`);
  await session.change(sql`
    UPDATE ${target} AS t SET ${sql.join(set)}, _synced_at = now()
    FROM json_to_recordset(${JSON.stringify(values)}::json) AS d(text text, ${sql.join(types)})
    WHERE t.${sql.id(from)} = d.text`);
}
