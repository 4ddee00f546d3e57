import { sql } from "kysely";
import { subjectRow } from "./keep-out.ts";
import type { ErasureKey, Subject } from "./subject-hash.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Suppresses subjects, and adds a tombstone for each new PID and row; returns the number of new ones. */
export async function noteSubjects(
  session: Session,
  names: SchemaNames,
  key: ErasureKey,
  by: { readonly erasureId: string; readonly runId: string },
  subjects: readonly Subject[],
): Promise<number> {
  if (subjects.length === 0) return 0;
  const rows = subjects.map((subject) => subjectRow(key, subject));
  const given = sql`json_to_recordset(${JSON.stringify(rows)}::json)
    AS g(kind text, hash text, pid text, source text, source_key text, email text)`;
  const [noted] = await session.rows<{ count: number }>(sql`
    WITH noted AS (
      INSERT INTO ${tableId(names, "erasure_subject")}
        (erasure_id, kind, subject_hash, key_id, requested_at, rows_removed, _synced_at, _run_id)
      SELECT DISTINCT ${by.erasureId}::uuid, g.kind, decode(g.hash, 'hex') AS subject_hash, ${key.id}, now(), 0, now(),
        ${by.runId}
      FROM ${given} ORDER BY subject_hash ON CONFLICT DO NOTHING RETURNING subject_hash),
    stones AS (
    INSERT INTO ${tableId(names, "tombstone")}
      (tombstone_id, service_pid, source, source_key, erased_at, _synced_at, _run_id)
    SELECT gen_random_uuid(), g.pid, g.source, g.source_key, now(), now(), ${by.runId}
    FROM (SELECT DISTINCT * FROM ${given}) AS g JOIN noted AS n ON n.subject_hash = decode(g.hash, 'hex')
    WHERE g.kind <> 'email')
    SELECT count(*) AS count FROM noted`);
  return noted?.count ?? 0;
}
