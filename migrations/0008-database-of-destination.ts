import { quoteQualified, type SchemaNames, THIS_DATABASE } from "../src/load/db/names.ts";

/** Records the database that publishes to each destination, from which a copy of it differs. */
export function recordDatabase(names: SchemaNames): readonly string[] {
  const destination = quoteQualified([names.state, "destination"]);
  return [
    `ALTER TABLE ${destination} ADD COLUMN IF NOT EXISTS database text`,
    `UPDATE ${destination} SET database = ${THIS_DATABASE}`,
  ];
}
