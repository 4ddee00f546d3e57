import { type RawBuilder, sql } from "kysely";
import { roomOf } from "../../schemas/registry.ts";

/** The two schemas of a warehouse. */
export interface SchemaNames {
  readonly data: string;
  readonly ops: string;
}

/** Qualified name of a declared table or view, quoted. */
export function tableId(names: SchemaNames, name: string): RawBuilder<unknown> {
  return sql.id(names[roomOf(name)], name);
}

/** Qualified name of a work table, which only lives as long as a run, quoted. */
export function stateTableId(names: SchemaNames, name: string): RawBuilder<unknown> {
  return sql.id(names.data, name);
}

/** An identifier, quoted; for statements that are built as plain text. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A text literal, quoted; only for texts of our own, never for data. */
export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A qualified name, quoted. */
export function quoteQualified(parts: readonly string[]): string {
  return parts.map(quoteIdentifier).join(".");
}
