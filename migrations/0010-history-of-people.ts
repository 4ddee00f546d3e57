import { createTable } from "../src/load/db/ddl.ts";
import { type SchemaNames, tableText } from "../src/load/db/names.ts";
import { personHistory } from "../src/schemas/person.ts";

/** Creates the history of people, and the index by time: rows are appended, so its size is a few pages. */
export function createPersonHistory(names: SchemaNames): readonly string[] {
  const table = tableText(names, personHistory.name);
  return [
    createTable(personHistory, names).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"),
    `CREATE INDEX IF NOT EXISTS person_history_by_time ON ${table} USING brin (valid_to) WITH (autosummarize = on)`,
  ];
}
