import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import type { Publication } from "../../src/jobs/publish/publication.ts";
import { type Db, openDb } from "../../src/load/db/db.ts";
import { keepForeignDatabases } from "../../src/load/inputs/foreign-database.ts";
import { silentLog } from "../../src/log.ts";
import { buildCatalog } from "../../src/publish/catalog.ts";
import type { Destination } from "../../src/publish/destination.ts";
import { openPostgresPlace, type PostgresPlace } from "../load/postgres-place.ts";

/** A Postgres with the declared tables, ready for publication. */
export interface SourcePlace {
  readonly place: PostgresPlace;
  readonly db: Db;
  /** Runs a statement like a psql user. */
  sql(text: string, params?: readonly unknown[]): Promise<readonly Record<string, string | null>[]>;
  /** Arguments of a publication. */
  publicationTo(destination: Destination): Promise<Publication>;
  close(): Promise<void>;
}

/** Opens a database like the program. */
export function openPublicationDb(url: string): Db {
  return openDb({
    url,
    names: { data: "person_data", ops: "person_data_ops", state: "person_data_state" },
    readErasureSecret: () => Promise.resolve(null),
    foreign: keepForeignDatabases(() => {
      throw new Error("no other database");
    }),
  });
}

/** Creates an empty warehouse. */
export async function openSourcePlace(): Promise<SourcePlace> {
  const place = await openPostgresPlace();
  await place.client.query("SET person_etl.run_id = 'test'");
  const db = openPublicationDb(place.url);
  return {
    place,
    db,
    sql: (text, params) => place.sql(text, params),
    async publicationTo(destination) {
      const folder = await mkdtemp(join(inject("runFolder"), "publish-"));
      return {
        db,
        destination,
        catalog: buildCatalog([], null),
        folder: join(folder, "files"),
        log: silentLog,
      };
    },
    async close() {
      await db.close();
      await place.close();
    },
  };
}
