import { type RawBuilder, sql } from "kysely";
import type { Drift } from "../../schemas/drift.ts";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";
import type { Asker } from "../books.ts";
import type { CounterDelta, LedgerEntry, RunRef } from "../warehouse.ts";
import { jsonRows } from "./json-rows.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { NOW } from "./session.ts";

/** Part of a transaction: its variables, and its statements in order. */
export interface ScriptPart {
  readonly declare: readonly RawBuilder<unknown>[];
  readonly statements: readonly RawBuilder<unknown>[];
}

/** Variable with the ids of a transaction's calls whose outcome was not known before: ARRAY<STRING>. */
export const NEW_CALLS = sql.raw("_etl_new_calls");

const LEDGER = sql.raw("_etl_ledger");
const OLDEST = sql.raw("_etl_oldest_call");

/**
 * Notes the outcome of attempts in the ledger, of calls that were reserved and of others, and leaves {@link NEW_CALLS}. Calls
 * that are in doubt no longer are forgotten as such. Once per transaction, before everything that asks for the new calls.
 */
export function settleLedger(names: DatasetNames, run: Asker, entries: readonly LedgerEntry[]): ScriptPart {
  const rows = sql`(${jsonRows(sql`${LEDGER}`, {
    callId: "STRING",
    endpoint: "STRING",
    apiRequestId: "STRING",
    startedAt: "TIMESTAMP",
    requestCompletedAt: "TIMESTAMP",
    milliseconds: "INT64",
    httpStatus: "INT64",
    attempt: "INT64",
    recordsSent: "INT64",
    recordsMatched: "INT64",
    responseBytes: "INT64",
    possiblyBilled: "BOOL",
    possiblyBilledTwice: "INT64",
    isSent: "BOOL",
  })})`;
  const calls = tableId(names, "ops", "api_call");
  return {
    declare: [
      sql`${LEDGER} STRING DEFAULT ${JSON.stringify(entries)}`,
      sql`${OLDEST} TIMESTAMP DEFAULT ${oldestOf(entries)}`,
      sql`${NEW_CALLS} ARRAY<STRING> DEFAULT []`,
    ],
    statements:
      entries.length === 0
        ? []
        : [
            // Twice the same call in one group counts once.
            sql`SET ${NEW_CALLS} = ARRAY(SELECT DISTINCT e.callId FROM ${rows} AS e WHERE e.callId NOT IN (
              SELECT c.call_id FROM ${calls} AS c WHERE c.started_at >= ${OLDEST} AND c.settled_at IS NOT NULL))`,
            sql`UPDATE ${calls} AS c SET api_request_id = e.apiRequestId, started_at = e.startedAt,
                request_completed_at = e.requestCompletedAt, milliseconds = e.milliseconds, http_status = e.httpStatus,
                attempt = e.attempt, records_sent = e.recordsSent, records_matched = e.recordsMatched,
                response_bytes = e.responseBytes, possibly_billed = e.possiblyBilled,
                records_possibly_billed_twice = e.possiblyBilledTwice, is_sent = e.isSent, settled_at = ${NOW},
                _synced_at = ${NOW}
              FROM ${rows} AS e
              WHERE c.call_id = e.callId AND c.started_at >= ${OLDEST} AND c.settled_at IS NULL`,
            sql`INSERT INTO ${calls} (call_id, run_id, job, endpoint, api_request_id, started_at, request_completed_at,
                milliseconds, http_status, attempt, records_sent, records_matched, response_bytes, possibly_billed,
                records_reserved, records_possibly_billed_twice, is_sent, settled_at, _synced_at)
              SELECT e.callId, ${run.runId}, ${run.job}, e.endpoint, e.apiRequestId, e.startedAt, e.requestCompletedAt,
                e.milliseconds, e.httpStatus, e.attempt, e.recordsSent, e.recordsMatched, e.responseBytes, e.possiblyBilled,
                0, e.possiblyBilledTwice, e.isSent, ${NOW}, ${NOW}
              FROM ${rows} AS e WHERE e.callId NOT IN (
                SELECT c.call_id FROM ${calls} AS c WHERE c.started_at >= ${OLDEST})`,
            sql`DELETE FROM ${tableId(names, "data", "call_in_doubt")} WHERE call_id IN (
              SELECT e.callId FROM ${rows} AS e WHERE NOT e.possiblyBilled AND e.callId IN UNNEST(${NEW_CALLS}))`,
          ],
  };
}

/** How far before its outcome a call may have been reserved, by clocks that differ. */
const RESERVED_BEFORE_MS = 86_400_000;

/** From when on the ledger holds these calls: only the partitions of those days are read. */
export function oldestOf(entries: readonly Pick<LedgerEntry, "startedAt">[]): RawBuilder<unknown> {
  const times = entries.map(({ startedAt }) => Date.parse(startedAt)).filter((time) => !Number.isNaN(time));
  const oldest = Math.min(...times, Date.now()) - RESERVED_BEFORE_MS;
  return sql`TIMESTAMP_MILLIS(${oldest})`;
}

/** Adds up drift. */
export function upsertDrift(
  names: DatasetNames,
  run: RunRef,
  drift: readonly Drift[],
): readonly RawBuilder<unknown>[] {
  if (drift.length === 0) return [];
  const table = tableId(names, "ops", "schema_drift");
  const rows = sql`(SELECT endpoint, SUBSTR(path, 1, 500) AS path, kind, ANY_VALUE(observedType) AS observed_type,
      SUM(occurrences) AS occurrences
    FROM (${jsonRows(sql`${JSON.stringify(drift)}`, {
      endpoint: "STRING",
      path: "STRING",
      kind: "STRING",
      observedType: "STRING",
      occurrences: "INT64",
    })}) GROUP BY 1, 2, 3)`;
  const isSame = sql`t.endpoint = d.endpoint AND t.path = d.path AND t.kind = d.kind`;
  return [
    sql`UPDATE ${table} AS t SET observed_type = d.observed_type, occurrences = t.occurrences + d.occurrences,
        last_seen_at = ${NOW}, _synced_at = ${NOW}, _run_id = ${run.runId}
      FROM ${rows} AS d WHERE ${isSame}`,
    sql`INSERT INTO ${table} (endpoint, path, kind, observed_type, occurrences, first_seen_at, last_seen_at, _synced_at, _run_id)
      SELECT d.endpoint, d.path, d.kind, d.observed_type, d.occurrences, ${NOW}, ${NOW}, ${NOW}, ${run.runId}
      FROM ${rows} AS d WHERE NOT EXISTS (SELECT 1 FROM ${table} AS t WHERE ${isSame})`,
  ];
}

const counterNames = Object.keys(runCounters) as RunCounter[];

/** Counters of which some are only known in the transaction. */
export type CounterTerms = Partial<Record<RunCounter, RawBuilder<unknown>>>;

/**
 * Adds to the run's counters, and moves `safe_until` (a TIMESTAMP) on, which is null where nothing is to be told of it.
 * `terms` are added to what `delta` says.
 */
export function addCounters(
  names: DatasetNames,
  run: RunRef,
  delta: CounterDelta,
  safeUntil: RawBuilder<unknown> | null,
  terms: CounterTerms = {},
): RawBuilder<unknown> {
  const set = counterNames.flatMap((name) => {
    const added = [
      ...((delta[name] ?? 0) === 0 ? [] : [sql`${delta[name] ?? 0}`]),
      ...(terms[name] === undefined ? [] : [sql`(${terms[name]})`]),
    ];
    return added.length === 0 ? [] : [sql`${sql.id(name)} = ${sql.id(name)} + ${sql.join(added, sql` + `)}`];
  });
  const moved =
    safeUntil === null
      ? []
      : [sql`safe_until = IF(safe_until IS NULL OR safe_until < ${safeUntil}, ${safeUntil}, safe_until)`];
  return sql`UPDATE ${tableId(names, "ops", "sync_run")}
    SET ${sql.join([...set, ...moved, sql`_synced_at = ${NOW}`])}
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}`;
}
