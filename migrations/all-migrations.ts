import type { SchemaNames } from "../src/load/db/names.ts";
import { createTables } from "./0001-tables.ts";

/** One step that brings a warehouse up to date; runs once, in a transaction. */
export interface Migration {
  readonly name: string;
  readonly statements: (names: SchemaNames) => readonly string[];
}

/**
 * Every migration, in order. The first one creates the tables as they are declared today, so a later one adds with
 * `IF NOT EXISTS` what a new warehouse already has. Views and comments are renewed after each upgrade.
 */
export const migrations: readonly Migration[] = [{ name: "0001-tables", statements: createTables }];
