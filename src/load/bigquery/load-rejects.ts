import { HASH_VERSION } from "./content.ts";
import { faultDetails } from "./data-fault.ts";
import { resolveRejects } from "./load-answers.ts";
import type { LoadPlace } from "./load-place.ts";
import { quoteLiteral, tableText } from "./names.ts";
import { NOW_NAME } from "./session.ts";
import { typedValue } from "./typed-value.ts";

/** What is said of an answer that can't be stored. */
const NOT_LOADABLE = "The warehouse refuses a value of the answer.";

/** Statements that quarantine records: a reject and a state for each of their input rows. */
export function rejectedStatements(place: LoadPlace): readonly string[] {
  const { spec, names, stage, isLoaded, isRefused, runId, count } = place;
  const reject = tableText(names, "data", "reject");
  const state = tableText(names, "data", "lookup_state");
  const run = quoteLiteral(runId);
  const key = `${quoteLiteral(spec.job)}, ${quoteLiteral(spec.input.name)}`;
  const columns =
    "r.k AS to_key, FROM_HEX(r.h) AS input_hash, FROM_HEX(s.sent_hash) AS sent_hash, s.sent_pid, s.api_request_id";
  const selects = [
    `SELECT ${columns}, s.stage, s.code, s.message, ${typedValue("json", "s.details")} AS details
      FROM ${stage} AS s, UNNEST(s.input_rows) AS r WHERE s.kind = 'reject' AND ${isLoaded}`,
    ...(isRefused === null
      ? []
      : [
          `SELECT ${columns}, 'load', 'not_loadable', ${quoteLiteral(NOT_LOADABLE)}, ${faultDetails(spec.type)}
      FROM ${stage} AS s, UNNEST(s.input_rows) AS r WHERE ${isRefused}`,
        ]),
  ];
  return [
    `CREATE TEMP TABLE reject_in AS ${selects.join(" UNION ALL ")}`,
    ...resolveRejects(place, "SELECT to_key FROM reject_in"),
    `INSERT INTO ${reject} (reject_id, run_id, job, source, source_key, stage, code, message, details, api_request_id,
        created_at, _synced_at)
      SELECT GENERATE_UUID(), ${run}, ${key}, to_key, stage, code, message, details, api_request_id, ${NOW_NAME}, ${NOW_NAME}
      FROM reject_in`,
    count("reject"),
    `CREATE TEMP TABLE rejected_row AS
      SELECT i.to_key, i.input_hash, i.sent_hash, i.sent_pid, t.source_key IS NOT NULL AS has_state
      FROM reject_in AS i
      LEFT JOIN (SELECT source_key FROM ${state} WHERE job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)}) AS t
        ON t.source_key = i.to_key
      QUALIFY ROW_NUMBER() OVER (PARTITION BY i.to_key) = 1`,
    `UPDATE ${state} AS t SET input_hash = s.input_hash, sent_hash = s.sent_hash, hash_version = ${HASH_VERSION},
        parameters_hash = ${quoteLiteral(spec.parametersHash)}, sent_service_pid = s.sent_pid, outcome = 'rejected',
        attempts = t.attempts + 1, due_at = NULL, _synced_at = ${NOW_NAME}, _run_id = ${run}
      FROM rejected_row AS s
      WHERE t.job = ${quoteLiteral(spec.job)} AND t.source = ${quoteLiteral(spec.input.name)} AND t.source_key = s.to_key`,
    `INSERT INTO ${state} (job, source, source_key, input_hash, sent_hash, hash_version, parameters_hash, sent_service_pid,
        outcome, attempts, answered_at, due_at, call_id, _synced_at, _run_id)
      SELECT ${key}, to_key, input_hash, sent_hash, ${HASH_VERSION}, ${quoteLiteral(spec.parametersHash)}, sent_pid, 'rejected',
        1, NULL, NULL, NULL, ${NOW_NAME}, ${run}
      FROM rejected_row WHERE NOT has_state`,
  ];
}
