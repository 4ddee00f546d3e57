import { createMissingTable } from "../src/load/db/ddl.ts";
import { type SchemaNames, tableText } from "../src/load/db/names.ts";
import { searchTables } from "../src/schemas/registry.ts";

/** Tables of searches that are looked up by person, for erasures and readers. */
const BY_PERSON = ["person_search_result", "audience_search_member", "contact_job_result"];

/** Creates the tables of searches and contact jobs. */
export function createSearchTables(names: SchemaNames): readonly string[] {
  return [
    ...searchTables.map((table) => createMissingTable(table, names)),
    ...BY_PERSON.map(
      (name) => `CREATE INDEX IF NOT EXISTS ${name}_by_pid ON ${tableText(names, name)} (service_pid)`,
    ),
  ];
}
