import type { ParametersDecision } from "../parameters-decision.ts";
import { refreshPolicy } from "../parameters-decision.ts";
import type { LookupSpec } from "../warehouse.ts";
import { type ClassifyContext, classifiedRows } from "./classify.ts";
import { type DatasetNames, quoteLiteral, tableText } from "./names.ts";
import { NOW_NAME } from "./session.ts";

/** Remembers the parameters, so that a run that goes on after a limit or a crash doesn't ask again. */
export function parametersStatements(
  names: DatasetNames,
  spec: LookupSpec,
  decision: ParametersDecision,
): readonly string[] {
  if (decision === "accepted") return [];
  // "undecided" gets here only when no row was bought with other parameters: there is nothing to decide.
  const accepted = decision === "undecided" ? "first" : decision;
  const table = tableText(names, "ops", "job_parameters");
  const job = quoteLiteral(spec.job);
  const hash = quoteLiteral(spec.parametersHash);
  return [
    `UPDATE ${table} SET parameters_hash = ${hash}, accepted = '${accepted}', accepted_at = ${NOW_NAME},
      _synced_at = ${NOW_NAME} WHERE job = ${job}`,
    `INSERT INTO ${table} (job, parameters_hash, refresh_policy, accepted, accepted_at, _synced_at, _run_id)
      SELECT ${job}, ${hash}, ${quoteLiteral(refreshPolicy(spec))}, '${accepted}', ${NOW_NAME}, ${NOW_NAME}, ''
      FROM (SELECT 1) WHERE NOT EXISTS (SELECT 1 FROM ${table} WHERE job = ${job})`,
  ];
}

/**
 * `--accept-parameters keep`: present content counts as what was bought, so nothing becomes due by the change. Done for all
 * shards, because the user's word holds for all of them.
 */
export function keepStatements(context: ClassifyContext): readonly string[] {
  const spec: LookupSpec = { ...context.spec, shard: null };
  const state = tableText(context.names, "data", "lookup_state");
  const hash = quoteLiteral(spec.parametersHash);
  const others = `job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)}
      AND parameters_hash <> ${hash} AND outcome <> 'rejected'`;
  const rehashed =
    spec.type === "validate_emails"
      ? []
      : [
          `CREATE TEMP TABLE kept_content AS SELECT source_key AS kept_key, class, input_hash, pid
            FROM (${classifiedRows({ ...context, spec })}) WHERE class <> 'reject:duplicate_key' AND source_key IS NOT NULL`,
          `UPDATE ${state} AS t SET input_hash = c.input_hash, _synced_at = ${NOW_NAME},
              sent_service_pid = IF(c.class = 'waiting', t.sent_service_pid, c.pid)
            FROM kept_content AS c WHERE ${others} AND t.source_key = c.kept_key`,
        ];
  return [
    ...rehashed,
    `UPDATE ${state} SET parameters_hash = ${hash}, _synced_at = ${NOW_NAME} WHERE ${others}`,
  ];
}

/** The share of the refresh age by which a first answer expires early, 0 to 1, from the hash of what was sent. */
const SPREAD = "(CAST(CONCAT('0x', SUBSTR(TO_HEX(sent_hash), 1, 8)) AS INT64) / 4294967296.0)";

function age(milliseconds: number | null): string {
  return milliseconds === null ? "CAST(NULL AS FLOAT64)" : `${milliseconds.toFixed(0)}.0`;
}

/** When an answer expires by the present refresh ages. */
function dueAt(spec: LookupSpec): string {
  const unmatchedMs = spec.refreshUnmatchedAfterMs ?? spec.refreshAfterMs;
  return `TIMESTAMP_ADD(answered_at, INTERVAL CAST(ROUND(1000
      * IF(outcome = 'matched', ${age(spec.refreshAfterMs)}, ${age(unmatchedMs)})
      * IF(attempts = 1 AND sent_hash IS NOT NULL, 1 - 0.2 * ${SPREAD}, 1)) AS INT64) MICROSECOND)`;
}

/** Computes `due_at` again after the configured refresh ages changed. */
export function refreshStatements(names: DatasetNames, spec: LookupSpec): readonly string[] {
  const policy = quoteLiteral(refreshPolicy(spec));
  const job = quoteLiteral(spec.job);
  return [
    `UPDATE ${tableText(names, "ops", "job_parameters")} SET refresh_policy = ${policy}, _synced_at = ${NOW_NAME}
      WHERE job = ${job} AND refresh_policy <> ${policy}`,
    `UPDATE ${tableText(names, "data", "lookup_state")} SET _synced_at = ${NOW_NAME}, due_at = ${dueAt(spec)}
      WHERE job = ${job} AND source = ${quoteLiteral(spec.input.name)} AND outcome <> 'rejected'`,
  ];
}

/** What a run will do to the states before it looks for what is due. */
export interface StateChanges {
  readonly isPolicyChanged: boolean;
  readonly keeps: boolean;
}

/**
 * The states as a run will find them after {@link refreshStatements} and {@link keepStatements}: a plan reads them so and
 * writes nothing. A kept row has no input_hash: whatever its content is, it counts as what was bought.
 */
export function changedStates(table: string, spec: LookupSpec, changes: StateChanges): string {
  const hash = quoteLiteral(spec.parametersHash);
  const isKept = `(parameters_hash <> ${hash} AND outcome <> 'rejected')`;
  const columns = [
    ...(changes.isPolicyChanged ? [`IF(outcome <> 'rejected', ${dueAt(spec)}, due_at) AS due_at`] : []),
    ...(changes.keeps
      ? [
          `IF(${isKept}, NULL, input_hash) AS input_hash`,
          `IF(${isKept}, ${hash}, parameters_hash) AS parameters_hash`,
        ]
      : []),
  ];
  if (columns.length === 0) return table;
  return `(SELECT * REPLACE (${columns.join(", ")}) FROM ${table}
    WHERE job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)})`;
}
