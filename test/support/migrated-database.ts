import { inject } from "vitest";
import { createDatabase, type TestDatabase } from "./fresh-database.ts";

/** Creates a database with all migrations: a copy of the one that the test run has migrated. */
export function takeMigratedDatabase(): Promise<TestDatabase> {
  const template = inject("migratedTemplate");
  return createDatabase(inject("postgresUrl"), template, `${template}_`);
}
