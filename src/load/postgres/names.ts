import { type RawBuilder, sql } from "kysely";
import type { Room } from "../../schemas/table.ts";

/** The two schemas of a warehouse. */
export interface SchemaNames {
  readonly data: string;
  readonly ops: string;
}

/** A table of ours, quoted. */
export function tableId(names: SchemaNames, room: Room, name: string): RawBuilder<unknown> {
  return sql.id(names[room], name);
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
