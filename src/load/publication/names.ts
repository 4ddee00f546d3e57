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

/** Qualified name of a table of the publication, quoted. */
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

/** Tag of a destination in names of triggers, whose length is bounded. */
export function tagOf(destination: string): string {
  return createHash("sha256").update(destination).digest("hex").slice(0, 12);
}

/** Text of a table's columns that changes when its rows have to be published again. */
export function columnsText({ columns }: PublishableTable): string {
  return columns.map(({ name, type }) => `${name} ${type}`).join(", ");
}
