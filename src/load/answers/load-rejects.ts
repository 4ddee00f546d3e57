import { sql } from "kysely";
import type { LookupReject, LoadSpec } from "../lookup.ts";
import { HASH_VERSION } from "../due/content.ts";
import { resolveRejects } from "./load-answers.ts";
import type { LoadPlace } from "./load-place.ts";
import { tableId } from "../db/names.ts";

/** Quarantines records that could not be processed: a reject and a state for each of their input rows. */
export async function loadRejects(
  place: LoadPlace,
  spec: LoadSpec,
  rejects: readonly LookupReject[],
): Promise<void> {
  const rows = rejects.flatMap((reject) =>
    reject.record.rows.map((row) => ({
      source_key: row.sourceKey,
      input_hash: `\\x${row.inputHash}`,
      sent_hash: `\\x${reject.record.sentHash}`,
      pid: reject.record.sentPid,
      stage: reject.stage,
      code: reject.code,
      message: reject.message,
      details: reject.details ?? null,
      api_request_id: reject.apiRequestId,
    })),
  );
  if (rows.length === 0) return;
  await resolveRejects(
    place,
    spec,
    rejects.flatMap((r) => r.record.rows.map((row) => row.sourceKey)),
  );
  const source = sql`json_to_recordset(${JSON.stringify(rows)}::json) AS r(source_key text, input_hash bytea,
    sent_hash bytea, pid text, stage text, code text, message text, details jsonb, api_request_id text)`;
  const written = await place.session.change(sql`
    INSERT INTO ${tableId(place.names, "reject")} (reject_id, run_id, job, source, source_key, stage, code,
      message, details, api_request_id, created_at, _synced_at)
    SELECT gen_random_uuid(), ${place.runId}, ${spec.job}, ${spec.input.name}, source_key, stage, code, message, details,
      api_request_id, now(), now()
    FROM ${source}`);
  place.touch("reject", written);
  await place.session.change(sql`
    INSERT INTO ${tableId(place.names, "lookup_state")} AS t (job, source, source_key, input_hash, sent_hash,
      hash_version, parameters_hash, sent_service_pid, outcome, attempts, answered_at, due_at, call_id, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.input.name}, source_key, input_hash, sent_hash, ${HASH_VERSION}, ${spec.parametersHash}, pid,
      'rejected', 1, NULL, NULL, NULL, now(), ${place.runId}
    FROM ${source} ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET input_hash = excluded.input_hash,
      sent_hash = excluded.sent_hash, hash_version = excluded.hash_version, parameters_hash = excluded.parameters_hash,
      sent_service_pid = excluded.sent_service_pid, outcome = 'rejected', attempts = t.attempts + 1, due_at = NULL,
      _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
}
