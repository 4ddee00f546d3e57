import { sql } from "kysely";
import { tableId } from "../db/names.ts";
import { HASH_VERSION } from "../due/content.ts";
import type { LookupContext } from "./load-context.ts";
import { unmarkPresent } from "./is-present.ts";
import { answerTables } from "./load-answers.ts";
import { resolveRejects } from "./answered-rows.ts";
import type { LookupReject } from "./answer.ts";
import type { LoadSpec } from "../due/lookup-spec.ts";

/** Quarantines records that could not be processed: a reject and a state for each of their input rows. */
export async function loadRejects(
  context: LookupContext,
  spec: LoadSpec,
  rejects: readonly LookupReject[],
): Promise<void> {
  if (rejects.length === 0) return;
  const { session, names, runId } = context;
  const records = rejects.map(({ record, stage, code, message, details, apiRequestId }) => ({
    record_id: record.recordId,
    sent_hash: `\\x${record.sentHash}`,
    pid: record.sentPid,
    stage,
    code,
    message,
    details: details ?? null,
    api_request_id: apiRequestId,
  }));
  const rows = sql`json_to_recordset(${JSON.stringify(records)}::json) AS r(record_id bigint, sent_hash bytea, pid text,
      stage text, code text, message text, details jsonb, api_request_id text)
    JOIN ${context.rows} AS w ON w.ord = r.record_id AND w.source_key IS NOT NULL`;
  await resolveRejects(context, spec, sql`SELECT w.source_key FROM ${rows}`);
  const written = await session.change(sql`
    INSERT INTO ${tableId(names, "reject")} (reject_id, run_id, job, source, source_key, stage, code,
      message, details, api_request_id, created_at, _synced_at)
    SELECT gen_random_uuid(), ${runId}, ${spec.job}, ${spec.input.name}, w.source_key, r.stage, r.code, r.message,
      r.details, r.api_request_id, now(), now()
    FROM ${rows}`);
  context.touch("reject", written);
  // States are locked before answers, as everywhere.
  await session.change(sql`
    INSERT INTO ${tableId(names, "lookup_state")} AS t (job, source, source_key, input_hash, sent_hash,
      hash_version, parameters_hash, sent_service_pid, outcome, attempts, answered_at, due_at, call_id, fingerprint, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.input.name}, w.source_key, w.input_hash, r.sent_hash, ${HASH_VERSION}, ${spec.parametersHash},
      r.pid, 'rejected', 1, NULL, NULL, NULL, w.fingerprint, now(), ${runId}
    FROM ${rows} ORDER BY w.source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET input_hash = excluded.input_hash,
      sent_hash = excluded.sent_hash, hash_version = excluded.hash_version, parameters_hash = excluded.parameters_hash,
      sent_service_pid = excluded.sent_service_pid, outcome = 'rejected', attempts = t.attempts + 1, due_at = NULL,
      fingerprint = excluded.fingerprint, _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
  if (spec.type !== "validate_emails") {
    const { job, type, input } = spec;
    const changed = await unmarkPresent(
      session,
      names,
      { job, type, source: input.name },
      sql`SELECT w.source_key FROM ${rows}`,
    );
    context.touch(answerTables[type].table, changed);
  }
}
