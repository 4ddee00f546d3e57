import {
  addDestination,
  followTable,
  leaveTable,
  readDestination,
  tablesToFollow,
  tablesToLeave,
} from "../../load/publication/registration.ts";
import type { Position } from "../../publish/destination.ts";
import { freshnessTable } from "../../publish/catalog.ts";
import { tableNamed } from "../../schemas/registry.ts";
import { type Publication, refused } from "./publication.ts";

/** Records a new destination, and refuses one that stands at another batch than Postgres has recorded. */
export async function register(
  { db, destination: { name } }: Publication,
  position: Position | null,
  full: boolean,
): Promise<void> {
  const state = await db.transaction((session) => readDestination(session, db.names, name));
  if (!state) {
    if (position !== null && !full) throw refused(name);
    await db.transaction((session) => addDestination(session, db.names, name));
    return;
  }
  if (full) return;
  const at = position?.id ?? null;
  if (at !== state.confirmedId && (at === null || at !== state.claimedId)) throw refused(name);
}

/** Follows the tables of the catalog from now on, and none that it no longer has. */
export async function followTables({ db, destination: { name }, catalog }: Publication): Promise<void> {
  const tables = catalog.tables.filter((table) => table.name !== freshnessTable.name);
  const kept = tables.map((table) => table.name);
  const left = await db.transaction((session) => tablesToLeave(session, db.names, name, kept));
  for (const table of left) {
    await db.transaction((session) => leaveTable(session, db.names, name, tableNamed(table)));
  }
  const followed = await db.transaction((session) => tablesToFollow(session, db.names, name, tables));
  for (const table of followed) {
    await db.transaction((session) => followTable(session, db.names, name, table));
  }
}
