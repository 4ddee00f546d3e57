import { type RawBuilder, sql } from "kysely";
import type { RejectFilter, RejectGroup, RejectRetry, StoredReject } from "../reject-warehouse.ts";
import { jsonRows } from "./json-rows.ts";
import { tableId } from "./names.ts";
import { NOW, type Session } from "./session.ts";

/** Whether a row `r` of `reject` is meant. */
function isMeant({ jobs, codes, rows }: RejectFilter, all: boolean): RawBuilder<unknown> {
  const keys = jsonRows(sql`${JSON.stringify(rows)}`, { source: "STRING", sourceKey: "STRING" });
  const tests = [
    sql`TRUE`,
    ...(all ? [] : [sql`r.resolved_at IS NULL`]),
    ...(jobs.length === 0 ? [] : [sql`r.job IN UNNEST(${[...jobs]})`]),
    ...(codes.length === 0 ? [] : [sql`r.code IN UNNEST(${[...codes]})`]),
    ...(rows.length === 0
      ? []
      : [
          sql`EXISTS (SELECT 1 FROM (${keys}) AS k WHERE k.source = r.source AND k.sourceKey = r.source_key)`,
        ]),
  ];
  return sql.join(tests, sql` AND `);
}

/** Rejects by job and cause, most first. */
export function countRejects(
  session: Session,
  filter: RejectFilter,
  all: boolean,
): Promise<readonly RejectGroup[]> {
  return session.rows<RejectGroup>(sql`
    SELECT job, stage, code, COUNT(*) AS rejects, MIN(created_at) AS firstAt, MAX(created_at) AS lastAt
    FROM ${tableId(session.names, "data", "reject")} AS r WHERE ${isMeant(filter, all)}
    GROUP BY job, stage, code ORDER BY rejects DESC, job, code, stage`);
}

/** The newest rejects. */
export async function listRejects(
  session: Session,
  filter: RejectFilter,
  { all, limit }: { readonly all: boolean; readonly limit: number },
): Promise<readonly StoredReject[]> {
  const rows = await session.rows<StoredReject & { readonly details: string | null }>(sql`
    SELECT job, source, source_key AS sourceKey, stage, code, message, details, created_at AS createdAt,
      resolved_at AS resolvedAt
    FROM ${tableId(session.names, "data", "reject")} AS r WHERE ${isMeant(filter, all)}
    ORDER BY created_at DESC, job, source_key, reject_id LIMIT ${sql.raw(String(limit))}`);
  return rows.map((row) => ({
    ...row,
    details: row.details === null ? null : (JSON.parse(row.details) as unknown),
  }));
}

/** Makes rejected rows due; what has no such row is resolved. */
export async function retryRejects(session: Session, filter: RejectFilter): Promise<RejectRetry> {
  const reject = tableId(session.names, "data", "reject");
  const state = tableId(session.names, "data", "lookup_state");
  const [done] = await session.transaction<RejectRetry>({
    statements: [
      sql`CREATE TEMP TABLE reject_meant AS
        SELECT r.reject_id, r.job, r.source, r.source_key, s.source_key IS NOT NULL AS has_row FROM ${reject} AS r
        LEFT JOIN (SELECT job, source, source_key FROM ${state} WHERE outcome = 'rejected') AS s
          ON s.job = r.job AND s.source = r.source AND s.source_key = r.source_key
        WHERE ${isMeant(filter, false)}`,
      sql`UPDATE ${reject} SET resolved_at = ${NOW}, _synced_at = ${NOW}
        WHERE reject_id IN (SELECT m.reject_id FROM reject_meant AS m WHERE NOT m.has_row)`,
      sql`UPDATE ${state} AS t SET due_at = ${NOW}, _synced_at = ${NOW}
        FROM (SELECT DISTINCT job, source, source_key FROM reject_meant WHERE has_row) AS m
        WHERE t.job = m.job AND t.source = m.source AND t.source_key = m.source_key`,
      // Who was pushed in vain is forgotten, so that the next run sends it.
      sql`DELETE FROM ${tableId(session.names, "data", "segment_push_member")} AS p WHERE p.state = 'invalid'
        AND EXISTS (SELECT 1 FROM reject_meant AS m WHERE m.job = p.job AND m.source_key = p.service_pid)`,
    ],
    outcome: sql<RejectRetry>`SELECT COUNT(*) AS rejects, COUNTIF(has_row) AS due, COUNTIF(NOT has_row) AS resolved
      FROM reject_meant`,
  });
  return done ?? { rejects: 0, due: 0, resolved: 0 };
}

/** Resolves open rejects. */
export function dropRejects(session: Session, filter: RejectFilter): Promise<number> {
  return session.change(sql`
    UPDATE ${tableId(session.names, "data", "reject")} AS r
    SET resolved_at = CURRENT_TIMESTAMP(), _synced_at = CURRENT_TIMESTAMP() WHERE ${isMeant(filter, false)}`);
}
