import { createHash } from "node:crypto";
import type { Column, PublishedSchema } from "../../schemas/table.ts";
import { quoteQualified, type SchemaNames, tableText } from "../db/names.ts";

/** A table to publish; see the catalog of `src/publish`. */
export interface PublishableTable {
  readonly name: string;
  readonly schema: PublishedSchema;
  readonly key: readonly string[];
  readonly columns: readonly Column[];
  readonly root: string;
  readonly rootKey: readonly string[];
}

/** Qualified, quoted name of a table of the publication state. */
export function stateText(
  names: SchemaNames,
  name: "destination" | "destination_table" | "dirty_key" | "publication_batch",
): string {
  return quoteQualified([names.state, name]);
}

/** Qualified name of a published table, quoted. */
export function sourceText(names: SchemaNames, table: Pick<PublishableTable, "name">): string {
  return tableText(names, table.name);
}

/** Short tag of a destination for trigger names, whose length is limited. */
export function tagOf(destination: string): string {
  return createHash("sha256").update(destination).digest("hex").slice(0, 12);
}

/** Signature of a table's columns. If it changes, all rows are published again. */
export function columnsText({ columns }: PublishableTable): string {
  return columns.map(({ name, type }) => `${name} ${type}`).join(", ");
}
