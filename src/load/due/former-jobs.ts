import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import type { LookupType } from "./lookup-spec.ts";

/** A job that answered rows of an input and is no longer configured. */
export interface FormerJob {
  readonly job: string;
  /** Rows that it answered. */
  readonly answered: number;
}

/** Returns the unconfigured job of this type that answered most rows of an input; null without one. */
export async function readFormerJob(
  db: Db,
  { source, type }: { readonly source: string; readonly type: LookupType },
  configured: readonly string[],
): Promise<FormerJob | null> {
  const { names } = db;
  return db.transaction(async (session) => {
    const [former] = await session.rows<FormerJob>(sql`
      SELECT s.job, count(*) AS answered FROM ${tableId(names, "lookup_state")} AS s
      WHERE s.source = ${source} AND s.outcome <> 'rejected' AND s.job <> ALL(${[...configured]}::text[])
        AND EXISTS (SELECT FROM ${tableId(names, "sync_run")} AS r WHERE r.job = s.job AND r.job_type = ${type})
      GROUP BY s.job ORDER BY count(*) DESC, s.job LIMIT 1`);
    return former ?? null;
  });
}
