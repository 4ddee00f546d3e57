import { type RawBuilder, sql } from "kysely";
import { quoteIdentifier } from "../db/names.ts";
import type { PostgresSession } from "../db/session.ts";
import { editDistance, nearest, plain } from "../../suggest.ts";

/** Name of a table as the database has it. */
interface TableName {
  readonly schema: string;
  readonly name: string;
}

/** Tables compared and shown at most. */
const MOST_TABLES = 10_000;
const MOST_SHOWN = 3;

/** Tables and views that the role can read, besides those of the system. */
const readable: RawBuilder<TableName> = sql`
  SELECT n.nspname AS schema, c.relname AS name
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND NOT starts_with(n.nspname, 'pg_')
    AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
  ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C" LIMIT ${MOST_TABLES}`;

const FILE = /^(?:csv|tsv|parquet|json|jsonl|ndjson|gz|zst)$/iu;

/** Hint for a table that doesn't exist: the tables with the most similar names, or how to read a file. */
export async function missingTableHint(session: PostgresSession, table: readonly string[]): Promise<string> {
  if (FILE.test(table.at(-1) ?? "")) {
    return (
      "A file is read through a connection: `connections: { files: { type: duckdb } }`, and `connection: files` in the input. " +
      "See docs/configuration.md."
    );
  }
  const wanted = plain(table.at(-1) ?? "");
  const wantedSchema = table.length > 1 ? plain(table[0] ?? "") : null;
  // A name in another schema is as near as one with a wrong letter.
  const near = nearest(wanted, await session.rows(readable), ({ schema, name }) => {
    const other = wantedSchema === null ? 0 : editDistance(wantedSchema, plain(schema));
    return editDistance(wanted, plain(name)) + Math.min(1, other);
  });
  const [first] = near;
  if (first === undefined)
    return "Create the table, or correct `table:`; a table outside the search path needs its schema.";
  const isSchemaMissing = table.length === 1 && first.name === table[0];
  const found = [first.schema, first.name].slice(-table.length).join(".");
  const isCase = found.toLowerCase() === table.join(".").toLowerCase();
  const reason = isSchemaMissing
    ? "A table outside the search path needs its schema"
    : isCase
      ? "Names are case-sensitive here"
      : "Create the table, or correct `table:`";
  return `${reason}: did you mean ${near.slice(0, MOST_SHOWN).map(writtenTable).join(", ")}?`;
}

const part = (name: string) => (/^[\p{L}_][\p{L}\p{N}_$]*$/u.test(name) ? name : quoteIdentifier(name));

/** `crm."Odd Name"`, as `table:` takes it; unusual parts are quoted. */
export function writtenTable({ schema, name }: TableName): string {
  return `${part(schema)}.${part(name)}`;
}

/** Hint for a table that the role must not read: the statements that grant it. */
export async function grantHint(session: PostgresSession, table: readonly string[]): Promise<string> {
  const [role = ""] = await session.pluck<string>(sql`SELECT current_user::text`);
  const [schema] = table.length > 1 ? table : [];
  const usage =
    schema === undefined
      ? ""
      : `GRANT USAGE ON SCHEMA ${quoteIdentifier(schema)} TO ${quoteIdentifier(role)}; `;
  return `As its owner: ${usage}GRANT SELECT ON ${table.map(quoteIdentifier).join(".")} TO ${quoteIdentifier(role)}.`;
}
