import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { NOW } from "../db/names.ts";
import type { RowKey } from "../inputs/input.ts";
import { asWriter } from "./lock.ts";

/** Selects rejects; an empty list selects all. */
export interface RejectFilter {
  readonly jobs: readonly string[];
  readonly codes: readonly string[];
  readonly rows: readonly RowKey[];
}

/** Rejects of one job and cause. */
export type RejectGroup = Awaited<ReturnType<typeof countRejects>>[number];

export type StoredReject = Awaited<ReturnType<typeof listRejects>>[number];

interface RejectRetry {
  readonly rejects: number;
  /** Selected rejects whose row becomes due in the next run; resolved when the row is answered. */
  readonly due: number;
  /** Rejects resolved immediately, because every run checks their row again. */
  readonly resolved: number;
}

/** Condition for selected rows `r` of `reject`. */
function isMeant({ jobs, codes, rows }: RejectFilter, all: boolean): RawBuilder<boolean> {
  const keys = JSON.stringify(rows);
  const tests = [
    all ? sql`true` : sql`r.resolved_at IS NULL`,
    ...(jobs.length === 0 ? [] : [sql`r.job = ANY(${[...jobs]}::text[])`]),
    ...(codes.length === 0 ? [] : [sql`r.code = ANY(${[...codes]}::text[])`]),
    ...(rows.length === 0
      ? []
      : [
          sql`(r.source, r.source_key) IN (
            SELECT k.source, k."sourceKey" FROM json_to_recordset(${keys}::json) AS k(source text, "sourceKey" text))`,
        ]),
  ];
  return sql`${sql.join(tests, sql` AND `)}`;
}

/** Counts rejects by job and cause, highest first. */
export function countRejects(db: Db, filter: RejectFilter, { all }: { readonly all: boolean }) {
  return db.rows(
    db.query
      .selectFrom("data.reject as r")
      .select(["job", "stage", "code"])
      .select(({ fn }) => [fn.countAll<number>().as("rejects")])
      .select(({ fn }) => [fn.min("created_at").as("first_at"), fn.max("created_at").as("last_at")])
      .where(isMeant(filter, all))
      .groupBy(["job", "stage", "code"])
      .orderBy(sql`rejects DESC, job, code, stage`),
  );
}

/** Lists the newest rejects. */
export function listRejects(
  db: Db,
  filter: RejectFilter,
  { all, limit }: { readonly all: boolean; readonly limit: number },
) {
  return db.rows(
    db.query
      .selectFrom("data.reject as r")
      .select(["job", "source", "source_key", "stage", "code", "message", "details", "created_at"])
      .select("resolved_at")
      .where(isMeant(filter, all))
      .orderBy(sql`created_at DESC, job, source_key, reject_id`)
      .limit(limit),
  );
}

/** Makes rejected rows due; resolves rejects without a stored row. */
export async function retryRejects(db: Db, filter: RejectFilter): Promise<RejectRetry> {
  return asWriter(db, "rejects", async (session) => {
    const reject = session.table("reject");
    // Rows with a rejected content; the key of a validation is its address.
    const rejected = sql`(SELECT r.reject_id, a.kind, a.content FROM ${reject} AS r
      JOIN ${session.table("lookup_job")} AS j ON j.job = r.job AND j.source = r.source
      LEFT JOIN ${session.table("lookup_row")} AS w ON w.job = r.job AND w.source = r.source AND w.source_key = r.source_key
      JOIN ${session.table("lookup_answer")} AS a ON a.kind = j.kind AND a.outcome = 'rejected'
        AND a.content = CASE WHEN j.kind LIKE 'validate_emails:%' THEN convert_to(r.source_key, 'UTF8') ELSE w.content END
      WHERE ${isMeant(filter, false)})`;
    const hasRow = sql`r.reject_id IN (SELECT reject_id FROM ${rejected} AS c)`;
    // Deletes PIDs that the service rejected, so that the next run retries them.
    await session.change(sql`
    DELETE FROM ${session.table("segment_push_member")} AS p USING ${reject} AS r
    WHERE ${isMeant(filter, false)} AND p.job = r.job AND p.service_pid = r.source_key AND p.state = 'invalid'`);
    const resolved = await session.change(sql`
    UPDATE ${reject} AS r SET resolved_at = now(), _synced_at = now() WHERE ${isMeant(filter, false)} AND NOT ${hasRow}`);
    const [due = 0] = await session.pluck<number>(sql`
    SELECT count(*) FROM ${reject} AS r WHERE ${isMeant(filter, false)}`);
    // The contents become due: the next run reads every row that has one again.
    await session.change(
      sql`CREATE TEMP TABLE retried ON COMMIT DROP AS SELECT DISTINCT kind, content FROM ${rejected} AS c`,
    );
    await session.change(sql`UPDATE ${session.table("lookup_row")} AS w SET fingerprint = NULL, _synced_at = now()
      WHERE w.content IN (SELECT content FROM pg_temp.retried)`);
    await session.change(sql`UPDATE ${session.table("lookup_row")} AS w SET fingerprint = NULL, _synced_at = now()
      FROM ${session.table("input_email")} AS e, ${session.table("lookup_job")} AS j
      WHERE e.source = w.source AND e.source_key = w.source_key AND j.job = w.job AND j.source = w.source
        AND j.kind LIKE 'validate_emails:%' AND convert_to(e.email_address, 'UTF8') IN (SELECT content FROM pg_temp.retried)`);
    await session.change(sql`DELETE FROM ${session.table("lookup_answer")} AS a USING pg_temp.retried AS c
      WHERE a.kind = c.kind AND a.content = c.content`);
    return { rejects: resolved + due, due, resolved };
  });
}

/** Resolves open rejects. */
export async function dropRejects(db: Db, filter: RejectFilter): Promise<number> {
  const resolved = db.query.updateTable("data.reject as r").set({ resolved_at: NOW, _synced_at: NOW });
  return asWriter(db, "rejects", (session) => session.change(resolved.where(isMeant(filter, false))));
}
