import { type RawBuilder, sql } from "kysely";
import type { Room } from "../../schemas/table.ts";

/** The two datasets of a warehouse, and the project that they are in. */
export interface DatasetNames {
  readonly project: string;
  readonly data: string;
  readonly ops: string;
}

/** A table of ours, quoted. */
export function tableId(names: DatasetNames, room: Room, name: string): RawBuilder<unknown> {
  return sql.id(names.project, names[room], name);
}

/** An identifier, quoted; for statements that are built as plain text. */
export function quoteIdentifier(name: string): string {
  return `\`${name.replaceAll("\\", "\\\\").replaceAll("`", "\\`")}\``;
}

/** A text literal, quoted; only for texts of our own and of the configuration, never for data. */
export function quoteLiteral(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll("'", "\\'")}'`;
}

/** A qualified name, quoted. */
export function quoteQualified(parts: readonly string[]): string {
  return parts.map(quoteIdentifier).join(".");
}

/** A table of ours, quoted; for statements that are built as plain text. */
export function tableText(names: DatasetNames, room: Room, name: string): string {
  return quoteQualified([names.project, names[room], name]);
}
