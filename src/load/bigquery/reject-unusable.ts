import type { LookupSpec } from "../warehouse.ts";
import { HASH_VERSION } from "./content.ts";
import { type DatasetNames, quoteLiteral, tableText } from "./names.ts";
import { NOW_NAME } from "./session.ts";
import type { CountRows, FreezePlace, SelectionTables } from "./selection-tables.ts";
import { KEPT_KEY_CHARACTERS, ownsKey } from "./shard-rows.ts";
import { REJECT_MESSAGES, WITHOUT_STATE } from "../unusable-rows.ts";

const withoutState = WITHOUT_STATE.map((code) => `'${code}'`).join(", ");

/** Every row that is to be rejected; a key that is too long for an index is cut. */
function foundRows({ due }: SelectionTables): string {
  return `SELECT SUBSTR(class, 8) AS code, prior, input_hash, pid,
      IF(class = 'reject:key_too_long', SUBSTR(source_key, 1, ${KEPT_KEY_CHARACTERS}), source_key) AS source_key
    FROM ${due} WHERE STARTS_WITH(class, 'reject:')`;
}

/** Open rejects of rows that can't have a state of their own. */
export function openRejects(names: DatasetNames, spec: LookupSpec): string {
  return `SELECT reject_id, code, source_key,
      ROW_NUMBER() OVER (PARTITION BY code, source_key ORDER BY created_at, reject_id) AS copy
    FROM ${tableText(names, "data", "reject")}
    WHERE job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)} AND resolved_at IS NULL AND code IN (${withoutState})
      AND ${ownsKey(spec.shard, "source_key")}`;
}

/** Statements that reject the rows that can't be sent, with their state, in sets. */
export function rejectStatements({ names, spec, tables, runId }: FreezePlace, count: CountRows): string {
  const reject = tableText(names, "data", "reject");
  const state = tableText(names, "data", "lookup_state");
  const messages = Object.entries(REJECT_MESSAGES)
    .map(([code, message]) => `WHEN '${code}' THEN ${quoteLiteral(message)}`)
    .join(" ");
  const own = `job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)}`;
  return `
    CREATE TEMP TABLE found AS ${foundRows(tables)};
    CREATE TEMP TABLE open_reject AS ${openRejects(names, spec)};
    UPDATE ${reject} AS t SET resolved_at = ${NOW_NAME}, _synced_at = ${NOW_NAME}
      FROM (
        SELECT o.reject_id FROM open_reject AS o
        LEFT JOIN (SELECT code, IFNULL(source_key, '') AS source_key, COUNT(*) AS copies FROM found GROUP BY 1, 2) AS f
          ON f.code = o.code AND f.source_key = IFNULL(o.source_key, '')
        WHERE o.copy > IFNULL(f.copies, 0)) AS mended
      WHERE t.reject_id = mended.reject_id;
    ${count("reject")}
    UPDATE ${reject} AS t SET resolved_at = ${NOW_NAME}, _synced_at = ${NOW_NAME}
      FROM (SELECT DISTINCT source_key FROM found WHERE code NOT IN (${withoutState}) AND prior = 'rejected') AS f
      WHERE t.job = ${quoteLiteral(spec.job)} AND t.source = ${quoteLiteral(spec.input.name)} AND t.source_key = f.source_key AND t.resolved_at IS NULL;
    ${count("reject")}
    INSERT INTO ${reject}
        (reject_id, run_id, job, source, source_key, stage, code, message, details, created_at, _synced_at)
      SELECT GENERATE_UUID(), ${quoteLiteral(runId)}, ${quoteLiteral(spec.job)}, ${quoteLiteral(spec.input.name)}, f.source_key, 'input', f.code, CASE f.code ${messages} END, NULL, ${NOW_NAME}, ${NOW_NAME}
      FROM (SELECT code, source_key, ROW_NUMBER() OVER (PARTITION BY code, source_key) AS copy FROM found) AS f
      LEFT JOIN (SELECT code, IFNULL(source_key, '') AS source_key, MAX(copy) AS copies FROM open_reject GROUP BY 1, 2) AS o
        ON o.code = f.code AND o.source_key = IFNULL(f.source_key, '')
      WHERE f.copy > IFNULL(o.copies, 0);
    ${count("reject")}
    CREATE TEMP TABLE rejected_state AS
      SELECT f.source_key AS to_key, f.input_hash, f.pid, IFNULL(s.attempts, 0) + 1 AS attempts, s.answered_at, s.call_id
      FROM found AS f LEFT JOIN (SELECT source_key, attempts, answered_at, call_id FROM ${state} WHERE ${own}) AS s
        ON s.source_key = f.source_key
      WHERE f.code NOT IN (${withoutState});
    DELETE FROM ${state} WHERE ${own} AND source_key IN (SELECT to_key FROM rejected_state);
    INSERT INTO ${state} (job, source, source_key, input_hash, sent_hash, hash_version, parameters_hash, sent_service_pid,
        outcome, attempts, answered_at, due_at, call_id, _synced_at, _run_id)
      SELECT ${quoteLiteral(spec.job)}, ${quoteLiteral(spec.input.name)}, to_key, input_hash, NULL, ${HASH_VERSION}, ${quoteLiteral(spec.parametersHash)}, pid, 'rejected', attempts, answered_at,
        NULL, call_id, ${NOW_NAME}, ${quoteLiteral(runId)}
      FROM rejected_state;`;
}
