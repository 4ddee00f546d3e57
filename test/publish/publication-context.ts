import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import type { Publication } from "../../src/jobs/publish/publication.ts";
import type { Db } from "../../src/load/db/db.ts";
import { openWarehouse } from "../../src/load/open.ts";
import { silentLog } from "../../src/log.ts";
import { buildCatalog, type Destination } from "../../src/publish/destination.ts";
import { openPostgresContext, type PostgresContext } from "../load/postgres-context.ts";

/** A Postgres with the declared tables, ready for publication. */
export interface SourceContext {
  readonly context: PostgresContext;
  readonly db: Db;
  /** Runs a statement like a psql user. */
  sql(text: string, params?: readonly unknown[]): Promise<readonly Record<string, string | null>[]>;
  /** Arguments of a publication. */
  publicationTo(destination: Destination): Promise<Publication>;
  close(): Promise<void>;
}

/** Opens a database like the program. */
export function openPublicationDb(url: string): Db {
  return openWarehouse({
    url,
    schema: "person_data",
    opsSchema: "person_data_ops",
    stateSchema: "person_data_state",
  });
}

/** Creates an empty warehouse. */
export async function openSourceContext(): Promise<SourceContext> {
  const context = await openPostgresContext();
  await context.client.query("SET person_etl.run_id = 'test'");
  const db = context.database.keep("publication", openPublicationDb);
  return {
    context,
    db,
    sql: (text, params) => context.sql(text, params),
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
      await context.close();
    },
  };
}
