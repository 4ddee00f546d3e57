import { type RawBuilder, sql } from "kysely";
import { schemaOf } from "../../schemas/registry.ts";
import type { Schema } from "../../schemas/table.ts";

/** Names of the warehouse's schemas. */
export type SchemaNames = Readonly<Record<Schema, string>>;

/** Qualified name of a declared table or view, quoted. */
export function tableId(names: SchemaNames, name: string): RawBuilder<unknown> {
  return sql.id(names[schemaOf(name)], name);
}

/** Text of {@link tableId}. */
export function tableText(names: SchemaNames, name: string): string {
  return quoteQualified([names[schemaOf(name)], name]);
}

/** Qualified, quoted name of a work table, which exists only during a run. */
export function stateTableId(names: SchemaNames, name: string): RawBuilder<unknown> {
  return sql.id(names.state, name);
}

/** Sequence that numbers calls. */
export const CALL_NUMBERS = "call_number";

/** Draws the next number of a call. */
export function nextCallNumber(names: SchemaNames): RawBuilder<number> {
  return sql`nextval(${quoteQualified([names.state, CALL_NUMBERS])}::text::regclass)`;
}

/** Quotes an identifier, for statements built as plain text. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Quotes a text literal; only for our own texts, never for data. */
export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** Quotes a qualified name. */
export function quoteQualified(parts: readonly string[]): string {
  return parts.map(quoteIdentifier).join(".");
}
