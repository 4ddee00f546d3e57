import { createTable } from "../src/load/db/ddl.ts";
import type { SchemaNames } from "../src/load/db/names.ts";
import { runShare } from "../src/schemas/state.ts";

/** Creates the table of what alerts compare between runs. */
export function createRunShares(names: SchemaNames): readonly string[] {
  return [createTable(runShare, names).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")];
}
