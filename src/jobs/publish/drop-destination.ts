import type { PublicationDb } from "../../load/publication/publication-db.ts";
import { leaveTable, removeDestination, tablesToLeave } from "../../load/publication/registration.ts";
import { tableNamed } from "../../schemas/registry.ts";

/** Stops recording changes for a destination. Keeps the tables in it. Returns false if it was unknown. */
export async function dropDestination(db: PublicationDb, name: string): Promise<boolean> {
  const tables = await db.transaction((session) => tablesToLeave(session, db.names, name, []));
  for (const table of tables) {
    await db.transaction((session) => leaveTable(session, db.names, name, tableNamed(table)));
  }
  return db.transaction((session) => removeDestination(session, db.names, name));
}
