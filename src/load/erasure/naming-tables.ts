import { tables } from "../../schemas/registry.ts";
import type { NamesPeople, Table } from "../../schemas/table.ts";

/** A table that names people, with these columns. */
export interface NamingTable {
  readonly table: Table;
  readonly people: NamesPeople;
}

/** Every declared table that names people. */
export const namingTables: readonly NamingTable[] = tables.flatMap((table) =>
  table.people === null || typeof table.people === "string" ? [] : [{ table, people: table.people }],
);
