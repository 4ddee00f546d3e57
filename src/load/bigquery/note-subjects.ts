import { type RawBuilder, sql } from "kysely";
import { type Learnt, subjectRow } from "../keep-out.ts";
import type { ErasureKey } from "../subject-hash.ts";
import { jsonRows } from "./json-rows.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { NOW } from "./session.ts";

const LEARNT = sql.raw("_etl_learnt");
const NOTED = sql.raw("_etl_noted");

/** The variable of {@link learntRows}. */
export function declareLearnt(key: ErasureKey, learnt: readonly Learnt[]): RawBuilder<unknown> {
  const rows = learnt.map(({ subject, erasureId }) => ({
    ...subjectRow(key, subject),
    erasure_id: erasureId,
  }));
  return sql`${LEARNT} STRING DEFAULT ${JSON.stringify(rows)}`;
}

/** What a load has learnt, as {@link noteSubjects} takes it. */
export const learntRows = sql`SELECT erasure_id, kind, FROM_HEX(hash) AS hash, pid, source, source_key, email FROM (${jsonRows(
  LEARNT,
  {
    erasure_id: "STRING",
    kind: "STRING",
    hash: "STRING",
    pid: "STRING",
    source: "STRING",
    source_key: "STRING",
    email: "STRING",
  },
)})`;

/**
 * Keeps subjects out and leaves a tombstone for each; those that an erasure has already are left alone.
 * @param rows a query of erasure_id, kind, hash, pid, source, source_key, email.
 * @param runId which run or erasure has found them.
 */
export function noteSubjects(
  names: DatasetNames,
  rows: RawBuilder<unknown>,
  runId: string,
): readonly RawBuilder<unknown>[] {
  const subject = tableId(names, "ops", "erasure_subject");
  return [
    sql`CREATE OR REPLACE TEMP TABLE ${NOTED} AS
      SELECT DISTINCT r.erasure_id, r.kind, r.hash, r.pid, r.source, r.source_key, r.email FROM (${rows}) AS r
      LEFT JOIN ${subject} AS e ON e.erasure_id = r.erasure_id AND e.kind = r.kind AND e.subject_hash = r.hash
      WHERE e.erasure_id IS NULL`,
    sql`INSERT INTO ${subject} (erasure_id, kind, subject_hash, requested_at, rows_removed, _synced_at, _run_id)
      SELECT DISTINCT erasure_id, kind, hash, ${NOW}, 0, ${NOW}, ${runId} FROM ${NOTED}`,
    sql`INSERT INTO ${tableId(names, "data", "tombstone")} (tombstone_id, service_pid, source, source_key, erased_at,
        email_address, erasure_id, removed_at, _synced_at, _run_id)
      SELECT GENERATE_UUID(), pid, source, source_key, ${NOW}, email, erasure_id, NULL, ${NOW}, ${runId} FROM ${NOTED}`,
  ];
}
