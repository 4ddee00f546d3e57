import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import type { Publication } from "../../src/jobs/publish/publication.ts";
import type { Db } from "../../src/load/db/db.ts";
import { silentLog } from "../../src/log.ts";
import { catalogOf, type Destination } from "../../src/publish/destination.ts";
import { openDefaultDb, openPostgresContext, type PostgresContext } from "../load/postgres-context.ts";

/** A Postgres with the declared tables, ready for publication. */
export interface SourceContext {
  readonly context: PostgresContext;
  readonly db: Db;
  /** Runs a statement like a psql user. */
  sql(text: string, params?: readonly unknown[]): Promise<readonly Record<string, string | null>[]>;
  /** Arguments of a publication; of these tables, or of all. */
  publicationTo(destination: Destination, tables?: readonly string[]): Promise<Publication>;
  close(): Promise<void>;
}

/** Creates an empty warehouse. */
export async function openSourceContext(): Promise<SourceContext> {
  const context = await openPostgresContext();
  await context.client.query("SET person_etl.run_id = 'test'");
  const db = openDefaultDb(context.url);
  return {
    context,
    db,
    sql: (text, params) => context.sql(text, params),
    async publicationTo(destination, tables) {
      const folder = await mkdtemp(join(inject("runFolder"), "publish-"));
      return {
        db,
        destination,
        catalog: catalogOf(tables ?? null),
        folder: join(folder, "files"),
        log: silentLog,
      };
    },
    async close() {
      await db.close();
      await context.close();
    },
  };
}
