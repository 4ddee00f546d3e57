import { sql } from "kysely";
import { codeOf, StopJobError } from "../../errors.ts";
import type { Db } from "./db.ts";
import { isDataFault } from "./failures.ts";

/** Fields of an error of the server that name its place; none of them is a value. */
interface Place {
  readonly schema?: string;
  readonly table?: string;
  readonly column?: string;
  readonly constraint?: string;
  readonly where?: string;
}

/** Code of a refusal that may be due to a value, as the answer has a single record. */
const VALUE_REFUSED = "value_refused";

/** True if a refusal may be due to a value. */
export function isValueRefused(error: unknown): boolean {
  return codeOf(error) === VALUE_REFUSED;
}

/** Returns the error of a job whose rows a table refuses, with the place: everything received stays on disk. */
export async function explainRefusal(db: Db, error: unknown, records: number): Promise<StopJobError> {
  const { schema, table, column, constraint, where } = error instanceof Error ? (error as Place) : {};
  const trigger = /function ([\w."]+)\(/u.exec(where ?? "")?.[1];
  const tables =
    table === undefined ? await tablesWithTrigger(db, trigger) : [[schema, table].filter(Boolean).join(".")];
  const named = [
    ...tables.map((name) => `table ${name}`),
    ...(column === undefined ? [] : [`column ${column}`]),
    ...(constraint === undefined ? [] : [`constraint ${constraint}`]),
    ...(trigger === undefined ? [] : [`trigger function ${trigger}`]),
  ];
  const place = named.length === 0 ? "a table of the warehouse" : named.join(", ");
  return new StopJobError(
    isDataFault(error) && records === 1 ? VALUE_REFUSED : "warehouse_refused",
    `Postgres refused every row of a response: ${place} (SQLSTATE ${codeOf(error) ?? "unknown"}). The likely cause is a column, constraint or ` +
      "trigger that was added to the table. Nothing received is lost: remove the cause and run again; the next run loads it and sends nothing twice.",
    { cause: error },
  );
}

/** Tables of ours with a trigger that calls a function; a raised error names only the function. */
async function tablesWithTrigger(db: Db, name: string | undefined): Promise<readonly string[]> {
  if (name === undefined) return [];
  const rows = await db.rows<{ table: string }>(sql`
    SELECT DISTINCT format('%I.%I', n.nspname, c.relname) AS table FROM pg_catalog.pg_trigger AS t
    JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.pronamespace
    JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE NOT t.tgisinternal AND n.nspname = ANY(${[db.names.data, db.names.ops, db.names.state]}::text[])
      AND ${name} IN (format('%I', p.proname), format('%I.%I', pn.nspname, p.proname)) ORDER BY 1`);
  return rows.map((row) => row.table);
}
