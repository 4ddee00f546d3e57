import { type RawBuilder, sql } from "kysely";
import type { LedgerEntry, RunRef } from "../warehouse.ts";
import { counterRows, countersOf, keyAt, NO_LIMITS } from "./budget-rows.ts";
import { jsonRows } from "./json-rows.ts";
import { oldestOf } from "./ledger.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { NOW } from "./session.ts";

/** Whether it is known that nothing was charged: no answer came, and the outcome leaves no doubt. */
function isUncharged({ possiblyBilled, recordsMatched }: LedgerEntry): boolean {
  return !possiblyBilled && recordsMatched === null;
}

/** Gives back what was reserved for attempts that cost nothing, to the periods that it was taken from. */
export function giveBack(
  names: DatasetNames,
  run: RunRef,
  entries: readonly LedgerEntry[],
): readonly RawBuilder<unknown>[] {
  const ids = entries.filter(isUncharged).map(({ callId }) => callId);
  if (ids.length === 0) return [];
  const calls = tableId(names, "ops", "api_call");
  const isGivenBack = sql`call_id IN UNNEST(${ids}) AND started_at >= ${oldestOf(entries)} AND records_reserved > 0`;
  const counters = jsonRows(sql`${JSON.stringify(countersOf(run, NO_LIMITS))}`, {
    budget: "STRING",
    period: "STRING",
    key: "STRING",
  });
  return [
    sql`UPDATE ${tableId(names, "ops", "budget_use")} AS u
      SET records_reserved = u.records_reserved - b.records, _synced_at = ${NOW}, _run_id = ${run.runId}
      FROM (
        SELECT budget, period, period_key, SUM(records) AS records FROM (
          SELECT counter.budget, counter.period, ${keyAt(sql`reserved_at`)} AS period_key, records_reserved AS records
          FROM (SELECT reserved_at, records_reserved FROM ${calls} WHERE ${isGivenBack}) CROSS JOIN (${counters}) AS counter)
        GROUP BY 1, 2, 3) AS b
      WHERE u.budget = b.budget AND u.period = b.period AND u.period_key = b.period_key`,
    sql`UPDATE ${calls} SET records_reserved = 0 WHERE ${isGivenBack}`,
  ];
}

/** Gives back records of a block that no call has taken, to the day that it was reserved in. */
export function giveBackRest(
  names: DatasetNames,
  run: RunRef,
  rest: { readonly records: number; readonly reservedAt: string },
): readonly RawBuilder<unknown>[] {
  if (rest.records === 0) return [];
  return [
    sql`UPDATE ${tableId(names, "ops", "budget_use")} AS u
      SET records_reserved = u.records_reserved - ${rest.records}, _synced_at = ${NOW}, _run_id = ${run.runId}
      FROM (${counterRows(countersOf(run, NO_LIMITS), sql`TIMESTAMP(${rest.reservedAt})`)}) AS b
      WHERE u.budget = b.budget AND u.period = b.period AND u.period_key = b.period_key`,
  ];
}
