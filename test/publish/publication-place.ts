import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import { inject } from "vitest";
import { createPublication } from "../../migrations/publication.ts";
import type { Publication } from "../../src/jobs/publish/publication.ts";
import { withRetries } from "../../src/load/db/recovery.ts";
import { inTransaction, openPool } from "../../src/load/db/session.ts";
import type { PublicationDb } from "../../src/load/publication/publication-db.ts";
import { silentLog } from "../../src/log.ts";
import { buildCatalog } from "../../src/publish/catalog.ts";
import type { Destination } from "../../src/publish/destination.ts";
import { openPostgresPlace, type PostgresPlace } from "../load/postgres-place.ts";

/** A Postgres with the declared tables, ready to be published. */
export interface SourcePlace {
  readonly place: PostgresPlace;
  readonly db: PublicationDb;
  /** Runs a statement as somebody at psql would. */
  sql(text: string, params?: readonly unknown[]): Promise<readonly Record<string, string | null>[]>;
  /** Everything that a publication needs. */
  publicationTo(destination: Destination): Promise<Publication>;
  close(): Promise<void>;
}

/** Opens the publication's side of a database. */
export function openPublicationDb(url: string): { readonly db: PublicationDb; readonly pool: pg.Pool } {
  const pool = openPool(url, 6);
  const names = { data: "person_data", ops: "person_data_ops" };
  return {
    pool,
    db: {
      names,
      transaction: (work) => withRetries(delay, () => inTransaction(pool, work)),
      snapshot: (work) => withRetries(delay, () => inTransaction(pool, work, { isSnapshot: true })),
      explain: (error) => error,
    },
  };
}

/** An empty warehouse of its own. */
export async function openSourcePlace(): Promise<SourcePlace> {
  const place = await openPostgresPlace();
  for (const statement of createPublication('"person_data"', '"person_data_ops"'))
    await place.client.query(statement);
  await place.client.query("SET person_etl.run_id = 'test'");
  const { db, pool } = openPublicationDb(place.url);
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
      await pool.end();
      await place.close();
    },
  };
}
