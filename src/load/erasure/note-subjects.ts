import { sql } from "kysely";
import { subjectRow } from "./keep-out.ts";
import type { ErasureKey, Subject } from "./subject-hash.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/**
 * Keeps subjects out and leaves a tombstone for each; those that the erasure has already are left alone.
 * @param by whose erasure they belong to, and which run or erasure has found them.
 */
export async function noteSubjects(
  session: Session,
  names: SchemaNames,
  key: ErasureKey,
  by: { readonly erasureId: string; readonly runId: string },
  subjects: readonly Subject[],
): Promise<void> {
  if (subjects.length === 0) return;
  const rows = subjects.map((subject) => subjectRow(key, subject));
  const given = sql`json_to_recordset(${JSON.stringify(rows)}::json)
    AS g(kind text, hash text, pid text, source text, source_key text, email text)`;
  await session.change(sql`
    WITH noted AS (
      INSERT INTO ${tableId(names, "erasure_subject")}
        (erasure_id, kind, subject_hash, requested_at, rows_removed, _synced_at, _run_id)
      SELECT DISTINCT ${by.erasureId}::uuid, g.kind, decode(g.hash, 'hex') AS subject_hash, now(), 0, now(), ${by.runId}
      FROM ${given} ORDER BY subject_hash ON CONFLICT DO NOTHING RETURNING subject_hash)
    INSERT INTO ${tableId(names, "tombstone")}
      (tombstone_id, service_pid, source, source_key, erased_at, email_address, erasure_id, removed_at, _synced_at, _run_id)
    SELECT gen_random_uuid(), g.pid, g.source, g.source_key, now(), g.email, ${by.erasureId}::uuid, NULL, now(), ${by.runId}
    FROM (SELECT DISTINCT * FROM ${given}) AS g JOIN noted AS n ON n.subject_hash = decode(g.hash, 'hex')`);
}
