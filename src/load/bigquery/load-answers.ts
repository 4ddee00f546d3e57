import { HASH_VERSION } from "./content.ts";
import type { LoadPlace } from "./load-place.ts";
import { quoteIdentifier, quoteLiteral, tableText } from "./names.ts";
import { NOW_NAME } from "./session.ts";
import { answerFields, answerTables, typeOf } from "./staged-columns.ts";
import { isDistinct, typedValue } from "./typed-value.ts";

/** What is known of a commit's answers before its statements are made. */
export interface AnswerFacts {
  /** Some of the input rows had been rejected. */
  readonly hasRejectedBefore: boolean;
}

/** Counts of answers that are stored already and not newer, of states likewise, and of changed matches. */
export const answerVariables: readonly string[] = ["k ARRAY<INT64>"];

const own = ({ spec }: LoadPlace) =>
  `job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)}`;

const keyValues = ({ spec }: LoadPlace) => `${quoteLiteral(spec.job)}, ${quoteLiteral(spec.input.name)}`;

const historyFields = ["is_match", "service_pid", "match_score"] as const;

/** Whether match, PID or score of two rows differ. */
function differs(a: string, b: string): string {
  return `(${historyFields.map((name) => isDistinct(typeOf("match_history", name), `${a}.${name}`, `${b}.${name}`)).join(" OR ")})`;
}

/** The answered input rows of a commit, each with what is stored of it; of two answers to one row the later counts. */
function answeredRows(place: LoadPlace, storedAnswer: string, join: string): string {
  const { spec, stage, isLoaded, names } = place;
  const table = answerTables[spec.type];
  const cells = answerFields[spec.type].map(
    (name) =>
      `${typedValue(typeOf(table, name), `s.cells.${quoteIdentifier(name)}`)} AS ${quoteIdentifier(name)}`,
  );
  return `SELECT i.*, ${storedAnswer}, st.source_key IS NOT NULL AS has_state,
      IFNULL(st.answered_at > i.at, FALSE) AS is_state_newer
    FROM (
      SELECT r.k AS to_key, FROM_HEX(r.h) AS input_hash, ${typedValue("timestamptz", "r.d")} AS due_at, r.p AS prior,
        FROM_HEX(s.sent_hash) AS sent_hash, s.sent_pid, s.outcome, s.call_id, s.api_request_id, s.returned_pid,
        ${typedValue("timestamptz", "s.answered_at")} AS at, ${typedValue("json", "s.extra")} AS extra, ${cells.join(", ")}
      FROM ${stage} AS s, UNNEST(s.input_rows) AS r WHERE s.kind = 'answer' AND ${isLoaded}
      QUALIFY ROW_NUMBER() OVER (PARTITION BY r.k ORDER BY ${typedValue("timestamptz", "s.answered_at")} DESC, s.seq DESC) = 1) AS i
    LEFT JOIN (SELECT source_key, answered_at FROM ${tableText(names, "data", "lookup_state")} WHERE ${own(place)}) AS st
      ON st.source_key = i.to_key
    ${join}`;
}

/** Statements that load the answers of a resolve or enrich job; an older answer changes nothing. */
export function answerStatements(place: LoadPlace, facts: AnswerFacts): readonly string[] {
  const { spec, names, runId, count } = place;
  const table = answerTables[spec.type];
  const answer = tableText(names, "data", table);
  const history = tableText(names, "data", "match_history");
  const run = quoteLiteral(runId);
  const stored = `t.source_key IS NOT NULL AS has_answer, IFNULL(t.request_completed_at > i.at, FALSE) AS is_older,
      (t.source_key IS NULL OR ${differs("t", "i")}) AS is_changed`;
  const join = `LEFT JOIN (SELECT source_key, request_completed_at, ${historyFields.join(", ")} FROM ${answer} WHERE ${own(place)}) AS t
      ON t.source_key = i.to_key`;
  const fields = answerFields[spec.type].map(quoteIdentifier);
  const columns = [...fields, "api_request_id", "request_completed_at", "_extra"];
  const values = [...fields, "api_request_id", "at", "extra"];
  const isMatch = "outcome = 'matched'";
  return [
    `CREATE TEMP TABLE answer_in AS ${answeredRows(place, stored, join)}`,
    `SET k = (SELECT [COUNTIF(has_answer AND NOT is_older), COUNTIF(has_state AND NOT is_state_newer),
      COUNTIF(has_answer AND is_changed AND NOT is_older)] FROM answer_in)`,
    `IF k[OFFSET(2)] > 0 THEN
      UPDATE ${history} AS h SET valid_to = s.at, _synced_at = ${NOW_NAME}, _run_id = ${run}
        FROM (SELECT to_key, at, ${historyFields.join(", ")} FROM answer_in WHERE has_answer AND is_changed AND NOT is_older) AS s
        WHERE h.job = ${quoteLiteral(spec.job)} AND h.source = ${quoteLiteral(spec.input.name)} AND h.source_key = s.to_key
          AND h.valid_to IS NULL AND h.valid_from < s.at AND ${differs("h", "s")};
      ${count("match_history")}
    END IF`,
    `INSERT INTO ${history} (job, source, source_key, valid_from, valid_to, is_match, service_pid, match_score, _synced_at, _run_id)
      SELECT ${keyValues(place)}, s.to_key, s.at, NULL, s.is_match, s.service_pid, s.match_score, ${NOW_NAME}, ${run}
      FROM answer_in AS s
      LEFT JOIN (SELECT DISTINCT source_key FROM ${history} WHERE ${own(place)} AND valid_to IS NULL) AS h
        ON h.source_key = s.to_key
      WHERE s.is_changed AND NOT s.is_older AND h.source_key IS NULL`,
    count("match_history"),
    `IF k[OFFSET(0)] > 0 THEN
      UPDATE ${answer} AS t SET ${columns.map((c, i) => `${c} = s.${values[i]}`).join(", ")},
          first_matched_at = IFNULL(t.first_matched_at, IF(s.${isMatch}, s.at, NULL)),
          last_matched_at = IF(s.${isMatch}, s.at, t.last_matched_at),
          last_matched_service_pid = IF(s.${isMatch}, s.returned_pid, t.last_matched_service_pid),
          _synced_at = ${NOW_NAME}, _run_id = ${run}
        FROM answer_in AS s
        WHERE t.job = ${quoteLiteral(spec.job)} AND t.source = ${quoteLiteral(spec.input.name)} AND t.source_key = s.to_key
          AND NOT s.is_older;
      ${count(table)}
    END IF`,
    `INSERT INTO ${answer} (job, source, source_key, ${columns.join(", ")}, first_matched_at, last_matched_at,
        last_matched_service_pid, _synced_at, _run_id)
      SELECT ${keyValues(place)}, to_key, ${values.join(", ")}, IF(${isMatch}, at, NULL), IF(${isMatch}, at, NULL),
        IF(${isMatch}, returned_pid, NULL), ${NOW_NAME}, ${run}
      FROM answer_in WHERE NOT has_answer`,
    count(table),
    ...stateStatements(place),
    ...(facts.hasRejectedBefore
      ? resolveRejects(place, "SELECT to_key FROM answer_in WHERE prior = 'rejected'")
      : []),
  ];
}

/** Statements that load the answers of a validate_emails job; a changed status keeps the one before. */
export function validationStatements(place: LoadPlace, facts: AnswerFacts): readonly string[] {
  const { names, runId, count } = place;
  const table = tableText(names, "data", "email_validation");
  const run = quoteLiteral(runId);
  const fields = answerFields.validate_emails.map(quoteIdentifier);
  const columns = [...fields, "api_request_id", "request_completed_at", "_extra"];
  const values = [...fields, "api_request_id", "at", "extra"];
  const stored = `t.email_address IS NOT NULL AS has_answer, IFNULL(t.request_completed_at > i.at, FALSE) AS is_older`;
  const join = `LEFT JOIN (SELECT email_address, request_completed_at FROM ${table}) AS t ON t.email_address = i.to_key`;
  const isChanged = "t.email_validation_status IS DISTINCT FROM s.email_validation_status";
  return [
    `CREATE TEMP TABLE answer_in AS ${answeredRows(place, stored, join)}`,
    `SET k = (SELECT [COUNTIF(has_answer AND NOT is_older), COUNTIF(has_state AND NOT is_state_newer)] FROM answer_in)`,
    `IF k[OFFSET(0)] > 0 THEN
      UPDATE ${table} AS t SET ${columns.map((c, i) => `${c} = s.${values[i]}`).join(", ")},
          previous_status = IF(${isChanged}, t.email_validation_status, t.previous_status),
          status_changed_at = IF(${isChanged}, s.at, t.status_changed_at), _synced_at = ${NOW_NAME}, _run_id = ${run}
        FROM answer_in AS s WHERE t.email_address = s.to_key AND NOT s.is_older;
      ${count("email_validation")}
    END IF`,
    `INSERT INTO ${table} (email_address, ${columns.join(", ")}, _synced_at, _run_id)
      SELECT to_key, ${values.join(", ")}, ${NOW_NAME}, ${run} FROM answer_in WHERE NOT has_answer`,
    count("email_validation"),
    ...stateStatements(place),
    ...(facts.hasRejectedBefore
      ? resolveRejects(place, "SELECT to_key FROM answer_in WHERE prior = 'rejected'")
      : []),
  ];
}

/** The states of the answered rows; an older answer's is left out. */
function stateStatements(place: LoadPlace): readonly string[] {
  const { spec, names, runId } = place;
  const state = tableText(names, "data", "lookup_state");
  const run = quoteLiteral(runId);
  const hash = quoteLiteral(spec.parametersHash);
  return [
    `IF k[OFFSET(1)] > 0 THEN
      UPDATE ${state} AS t SET input_hash = s.input_hash, sent_hash = s.sent_hash, hash_version = ${HASH_VERSION},
          parameters_hash = ${hash}, sent_service_pid = s.sent_pid, outcome = s.outcome, attempts = t.attempts + 1,
          answered_at = s.at, due_at = s.due_at, call_id = s.call_id, _synced_at = ${NOW_NAME}, _run_id = ${run}
        FROM answer_in AS s
        WHERE t.job = ${quoteLiteral(spec.job)} AND t.source = ${quoteLiteral(spec.input.name)} AND t.source_key = s.to_key
          AND NOT s.is_state_newer;
    END IF`,
    `INSERT INTO ${state} (job, source, source_key, input_hash, sent_hash, hash_version, parameters_hash, sent_service_pid,
        outcome, attempts, answered_at, due_at, call_id, _synced_at, _run_id)
      SELECT ${keyValues(place)}, to_key, input_hash, sent_hash, ${HASH_VERSION}, ${hash}, sent_pid, outcome, 1, at, due_at,
        call_id, ${NOW_NAME}, ${run}
      FROM answer_in WHERE NOT has_state`,
  ];
}

/** Marks the open rejects of some rows as resolved. @param keys a query for their keys. */
export function resolveRejects(place: LoadPlace, keys: string): readonly string[] {
  return [
    `UPDATE ${tableText(place.names, "data", "reject")} SET resolved_at = ${NOW_NAME}, _synced_at = ${NOW_NAME}
      WHERE ${own(place)} AND resolved_at IS NULL AND source_key IN (${keys})`,
    place.count("reject"),
  ];
}
