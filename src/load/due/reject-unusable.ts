import { rejectCodes } from "../../schemas/reject-codes.ts";
import { sql } from "kysely";
import { HASH_VERSION } from "./content.ts";
import { raw } from "../inputs/input.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { KEPT_KEY_CHARACTERS, ownsKey } from "./shard-rows.ts";
import type { LookupSpec } from "./lookup-spec.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Messages of rejects that are found before a call. */
export const REJECT_MESSAGES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(rejectCodes).flatMap(([code, { stage, means }]) =>
    stage === "input" ? [[code, means]] : [],
  ),
);

/** Reject codes of rows without a stored state. Every run finds them again and keeps one open reject each. */
export const WITHOUT_STATE: readonly string[] = ["missing_key", "key_too_long", "duplicate_key"];

/** Collects the rows of `due_row` to reject; keys that are too long for an index are truncated. */
const COLLECT = sql`
  CREATE TEMP TABLE unusable_row ON COMMIT DROP AS SELECT substring(class FROM 8) AS code, prior, input_hash, pid,
    -- The next selection marks an earlier answer as outdated.
    CASE WHEN prior IS DISTINCT FROM 'matched' THEN fingerprint END AS fingerprint,
    CASE WHEN class = 'reject:key_too_long' THEN left(source_key, ${KEPT_KEY_CHARACTERS}) ELSE source_key END AS source_key
  FROM pg_temp.due_row WHERE class LIKE 'reject:%'`;

/** Rejects the rows of `due_row` that can't be sent and stores their state. Returns the number of rejects written. */
export async function rejectUnusable(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  run: RunRef,
): Promise<number> {
  const reject = tableId(names, "reject");
  const source = spec.input.name;
  await session.change(COLLECT);
  const open = sql`
    SELECT reject_id, code, source_key,
      row_number() OVER (PARTITION BY code, source_key ORDER BY created_at, reject_id) AS copy
    FROM ${reject} WHERE job = ${spec.job} AND source = ${source} AND resolved_at IS NULL AND code = ANY(${[...WITHOUT_STATE]})
      AND ${raw(ownsKey(spec.shard, "source_key"))}`;
  const resolved = await session.change(sql`
    UPDATE ${reject} AS t SET resolved_at = now(), _synced_at = now()
    FROM (${open}) AS o
    LEFT JOIN (SELECT code, source_key, count(*) AS copies FROM pg_temp.unusable_row AS f GROUP BY code, source_key) AS f
      ON f.code = o.code AND coalesce(f.source_key, '') = coalesce(o.source_key, '')
    WHERE t.reject_id = o.reject_id AND o.copy > coalesce(f.copies, 0)`);
  const replaced = await session.change(sql`
    UPDATE ${reject} AS t SET resolved_at = now(), _synced_at = now() FROM pg_temp.unusable_row AS f
    WHERE f.code <> ALL(${[...WITHOUT_STATE]}) AND f.prior = 'rejected' AND t.job = ${spec.job} AND t.source = ${source}
      AND t.source_key = f.source_key AND t.resolved_at IS NULL`);
  const rejected = await session.change(sql`
    INSERT INTO ${reject}
      (reject_id, run_id, job, source, source_key, stage, code, message, details, created_at, _synced_at)
    SELECT gen_random_uuid(), ${run.runId}, ${spec.job}, ${source}, f.source_key, 'input', f.code, m.message, NULL, now(), now()
    FROM (SELECT code, source_key, row_number() OVER (PARTITION BY code, source_key) AS copy FROM pg_temp.unusable_row AS f) AS f
    JOIN json_each_text(${JSON.stringify(REJECT_MESSAGES)}::json) AS m(code, message) ON m.code = f.code
    LEFT JOIN (SELECT code, source_key, max(copy) AS copies FROM (${open}) AS o GROUP BY code, source_key) AS o
      ON o.code = f.code AND coalesce(o.source_key, '') = coalesce(f.source_key, '')
    WHERE f.copy > coalesce(o.copies, 0)`);
  await session.change(sql`
    INSERT INTO ${tableId(names, "lookup_state")} AS t (job, source, source_key, input_hash, sent_hash,
      hash_version, parameters_hash, sent_service_pid, outcome, attempts, answered_at, due_at, call_id, fingerprint, _synced_at,
      _run_id)
    SELECT ${spec.job}, ${source}, source_key, input_hash, NULL, ${HASH_VERSION}, ${spec.parametersHash}, pid,
      'rejected', 1, NULL, NULL, NULL, fingerprint, now(), ${run.runId}
    FROM pg_temp.unusable_row AS f WHERE code <> ALL(${[...WITHOUT_STATE]})
    ON CONFLICT (job, source, source_key) DO UPDATE SET input_hash = excluded.input_hash, sent_hash = NULL,
      hash_version = excluded.hash_version, parameters_hash = excluded.parameters_hash,
      sent_service_pid = excluded.sent_service_pid, outcome = 'rejected', attempts = t.attempts + 1,
      due_at = NULL, fingerprint = excluded.fingerprint, _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
  return resolved + replaced + rejected;
}
