import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { quoteQualified } from "../db/names.ts";

/** One row of the view `publication`. */
export interface PublicationStatus {
  readonly destination: string;
  /** Last confirmed batch; 0 before the first one. */
  readonly batch_number: number;
  readonly last_published_at: string | null;
  /** Rows published since the destination was added. */
  readonly rows_published: number;
  /** Changed keys not published yet. */
  readonly keys_waiting: number;
  /** Age of the oldest pending key. */
  readonly lag_seconds: number;
  readonly last_verified_at: string | null;
  /** Tables that differed at the last comparison. */
  readonly tables_differing: readonly string[] | null;
}

/** Reads the status of all destinations. */
export async function readPublicationStatus(db: Db): Promise<readonly PublicationStatus[]> {
  const view = sql.raw(quoteQualified([db.names.ops, "publication"]));
  return db.transaction((session) =>
    session.rows<PublicationStatus>(sql`SELECT * FROM ${view} ORDER BY destination`),
  );
}
