import { createTable } from "../src/load/db/ddl.ts";
import type { SchemaNames } from "../src/load/db/names.ts";
import { jobRequest, spoolPlace } from "../src/schemas/state.ts";

/** Adds the disks with answers that may not be loaded, and the requests for locks. */
export function addPlacesAndRequests(names: SchemaNames): readonly string[] {
  return [spoolPlace, jobRequest].map((table) =>
    createTable(table, names).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"),
  );
}
