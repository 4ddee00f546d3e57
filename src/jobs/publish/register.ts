import {
  addDestination,
  followTable,
  leaveTable,
  readDestination,
  restartDestination,
  tablesToFollow,
  tablesToLeave,
} from "../../load/publication/registration.ts";
import { ERASURE_TABLES } from "../../load/publication/batch.ts";
import type { Catalog, PublishedTable } from "../../publish/destination.ts";
import { buildCatalog, freshnessTable } from "../../publish/catalog.ts";
import { tableNamed } from "../../schemas/registry.ts";
import { copied, type Publication, refused } from "./publication.ts";

/** Adds a new destination. Refuses one whose batch differs from the recorded one, unless everything is published again: then restarts it. */
export async function register({ db, destination }: Publication, full: boolean): Promise<void> {
  const { name } = destination;
  const read = () => db.transaction((session) => readDestination(session, db.names, name));
  const before = await read();
  if (before && !before.isOfThisDatabase && !full) throw copied(name);
  if (full) await destination.restart();
  const position = await destination.position();
  if (!before) {
    if (position !== null && !full) throw refused(name);
    await db.transaction((session) => addDestination(session, db.names, name));
  }
  // Directly after the destination: a crash between the two is refused, and takes another `--full`.
  if (full) await db.transaction((session) => restartDestination(session, db.names, name, position));
  if (full || !before) return;
  const at = position?.id ?? null;
  if (at === before.confirmedId || (at !== null && at === before.claimedId)) return;
  // Another publisher may have changed it between the two reads.
  const after = await read();
  if (after?.claimedId === before.claimedId) throw refused(name);
}

/** Tables of the catalog, and those that reveal an erasure, after which a destination purges deleted values. */
function followedTables(catalog: Catalog): readonly PublishedTable[] {
  const published = catalog.tables.filter(({ name }) => name !== freshnessTable.name);
  const erasure = buildCatalog([], [...ERASURE_TABLES]).tables;
  return [...published, ...erasure.filter(({ name }) => !published.some((table) => table.name === name))];
}

/** Follows the catalog's tables and stops following others. */
export async function followTables({ db, destination: { name }, catalog }: Publication): Promise<void> {
  const tables = followedTables(catalog);
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
