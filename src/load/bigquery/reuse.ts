import { tableNamed } from "../../schemas/registry.ts";
import type { LookupSpec } from "../warehouse.ts";
import { HASH_VERSION } from "./content.ts";
import { quoteIdentifier, quoteLiteral, tableText } from "./names.ts";
import { NOW_NAME } from "./session.ts";
import type { CountRows, FreezePlace, SelectionTables } from "./selection-tables.ts";

/**
 * Due rows whose content was answered for another row of the job, under the same parameters, and is still fresh.
 */
export function reusableRows(states: string, spec: LookupSpec, { due }: SelectionTables): string {
  return `SELECT d.source_key, d.prior, d.input_hash, d.sent_hash, d.pid, f.source_key AS from_key, f.outcome
    FROM ${due} AS d
    JOIN (
      SELECT sent_hash, source_key, outcome FROM ${states}
      WHERE job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)} AND parameters_hash = ${quoteLiteral(spec.parametersHash)} AND outcome <> 'rejected'
        AND (due_at IS NULL OR due_at > CURRENT_TIMESTAMP()) AND sent_hash IS NOT NULL
      QUALIFY ROW_NUMBER() OVER (PARTITION BY sent_hash ORDER BY answered_at DESC, source_key) = 1) AS f
      ON f.sent_hash = d.sent_hash
    WHERE d.class IN ('never_answered', 'content_changed', 'pid_changed')`;
}

/** Columns that a row has of its own, whatever it takes over. */
const NOT_COPIED = [
  "job",
  "source",
  "source_key",
  "first_matched_at",
  "last_matched_at",
  "last_matched_service_pid",
  "_synced_at",
  "_run_id",
];

const COPIED_STATE = ["parameters_hash", "outcome", "attempts", "answered_at", "due_at", "call_id"];

function ifMatched(expression: string): string {
  return `IF(outcome = 'matched', ${expression}, NULL)`;
}

/**
 * Statements that give those rows the fresh answer, with its own times and request id. The rows that they replace are
 * deleted and written anew, which BigQuery bills no higher than an update.
 */
export function reuseStatements(
  { names, spec, tables: { reused }, runId }: FreezePlace,
  count: CountRows,
): string {
  const answer = tableNamed(spec.type === "enrich" ? "enrichment" : "resolution");
  const answerId = tableText(names, "data", answer.name);
  const history = tableText(names, "data", "match_history");
  const reject = tableText(names, "data", "reject");
  const state = tableText(names, "data", "lookup_state");
  const copied = answer.columns.map((c) => c.name).filter((name) => !NOT_COPIED.includes(name));
  const list = copied.map(quoteIdentifier).join(", ");
  const own = `job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)}`;
  // The row's own last answer is `o`: what it takes over begins after that, however old it is.
  return `
    CREATE TEMP TABLE taken AS
      SELECT r.source_key AS to_key, r.outcome, ${copied.map((c) => `a.${quoteIdentifier(c)}`).join(", ")},
        a.last_matched_service_pid, o.first_matched_at AS own_first, o.last_matched_at AS own_last,
        o.last_matched_service_pid AS own_last_pid,
        GREATEST(a.request_completed_at, IFNULL(TIMESTAMP_ADD(o.request_completed_at, INTERVAL 1 MICROSECOND), a.request_completed_at)) AS taken_at
      FROM ${reused} AS r
      JOIN (SELECT * FROM ${answerId} WHERE ${own}) AS a ON a.source_key = r.from_key
      LEFT JOIN (SELECT * FROM ${answerId} WHERE ${own}) AS o ON o.source_key = r.source_key;
    UPDATE ${history} AS h SET valid_to = t.taken_at, _synced_at = ${NOW_NAME}, _run_id = ${quoteLiteral(runId)}
      FROM taken AS t
      WHERE h.job = ${quoteLiteral(spec.job)} AND h.source = ${quoteLiteral(spec.input.name)} AND h.source_key = t.to_key AND h.valid_to IS NULL
        AND (h.is_match IS DISTINCT FROM t.is_match OR h.service_pid IS DISTINCT FROM t.service_pid
          OR h.match_score IS DISTINCT FROM t.match_score);
    ${count("match_history")}
    INSERT INTO ${history} (job, source, source_key, valid_from, valid_to, is_match, service_pid, match_score, _synced_at, _run_id)
      SELECT ${quoteLiteral(spec.job)}, ${quoteLiteral(spec.input.name)}, t.to_key, t.taken_at, NULL, t.is_match, t.service_pid, t.match_score, ${NOW_NAME}, ${quoteLiteral(runId)}
      FROM taken AS t
      LEFT JOIN (SELECT source_key FROM ${history} WHERE ${own} AND valid_to IS NULL) AS h ON h.source_key = t.to_key
      WHERE h.source_key IS NULL;
    ${count("match_history")}
    DELETE FROM ${answerId} WHERE ${own} AND source_key IN (SELECT to_key FROM taken);
    INSERT INTO ${answerId} (job, source, source_key, ${list}, first_matched_at, last_matched_at, last_matched_service_pid,
        _synced_at, _run_id)
      SELECT ${quoteLiteral(spec.job)}, ${quoteLiteral(spec.input.name)}, to_key, ${list}, IFNULL(own_first, ${ifMatched("request_completed_at")}),
        IFNULL(${ifMatched("request_completed_at")}, own_last),
        IF(outcome = 'matched', last_matched_service_pid, own_last_pid), ${NOW_NAME}, ${quoteLiteral(runId)}
      FROM taken;
    ${count(answer.name)}
    UPDATE ${reject} AS t SET resolved_at = ${NOW_NAME}, _synced_at = ${NOW_NAME}
      FROM (SELECT source_key FROM ${reused} WHERE prior = 'rejected') AS r
      WHERE t.job = ${quoteLiteral(spec.job)} AND t.source = ${quoteLiteral(spec.input.name)} AND t.source_key = r.source_key AND t.resolved_at IS NULL;
    CREATE TEMP TABLE taken_state AS
      SELECT r.source_key AS to_key, r.input_hash, r.sent_hash, r.pid, ${COPIED_STATE.map((c) => `f.${c}`).join(", ")}
      FROM ${reused} AS r JOIN (SELECT * FROM ${state} WHERE ${own}) AS f ON f.source_key = r.from_key;
    DELETE FROM ${state} WHERE ${own} AND source_key IN (SELECT to_key FROM taken_state);
    INSERT INTO ${state} (job, source, source_key, input_hash, sent_hash, hash_version, sent_service_pid,
        ${COPIED_STATE.join(", ")}, _synced_at, _run_id)
      SELECT ${quoteLiteral(spec.job)}, ${quoteLiteral(spec.input.name)}, to_key, input_hash, sent_hash, ${HASH_VERSION}, pid, ${COPIED_STATE.join(", ")}, ${NOW_NAME}, ${quoteLiteral(runId)}
      FROM taken_state;`;
}
