import { sql } from "kysely";
import { type BudgetRow, rowsOf } from "./budget-rows.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** True if certainly nothing was billed: no answer, and an unambiguous outcome. */
function isUncharged({ possiblyBilled, recordsMatched }: Attempt): boolean {
  return !possiblyBilled && recordsMatched === null;
}

const NO_LIMITS = { perDay: null, perMonth: null, perRun: null, perShard: null };

/**
 * Releases the reservations of attempts that cost nothing, in their original periods. Runs near the end of a
 * transaction, because every other call waits for these rows.
 */
export async function giveBack(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  entries: readonly Attempt[],
): Promise<void> {
  const ids = entries.filter(isUncharged).map(({ callId }) => callId);
  if (ids.length === 0) return;
  const calls = await session.rows<Reserved>(sql`
    WITH back AS (
      SELECT call_id, run_id, budget, reserved_at, records_reserved FROM ${tableId(names, "api_call")}
      WHERE call_id = ANY(${ids}::uuid[]) AND records_reserved > 0 ORDER BY call_id FOR UPDATE),
    emptied AS (
      UPDATE ${tableId(names, "api_call")} AS c SET records_reserved = 0 FROM back WHERE c.call_id = back.call_id)
    SELECT run_id, budget, reserved_at, records_reserved AS records FROM back`);
  await lowerBudgets(session, names, run, calls);
}

/** Reservation that was released. */
interface Reserved {
  readonly run_id: string;
  readonly budget: string;
  readonly reserved_at: string;
  /** Released records; negative for records billed in addition. */
  readonly records: number;
}

/**
 * Records what a reservation without an attempt of its own was billed, and releases the rest; `billed` is null if certainly
 * nothing was. Changes nothing the second time.
 */
export async function settleReservation(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  { callId, billed }: { readonly callId: string; readonly billed: number | null },
): Promise<void> {
  const calls = await session.rows<Reserved>(sql`
    WITH open AS (
      SELECT call_id, run_id, budget, reserved_at, records_reserved FROM ${tableId(names, "api_call")}
      WHERE call_id = ${callId}::uuid AND settled_at IS NULL FOR UPDATE),
    settled AS (
      UPDATE ${tableId(names, "api_call")} AS c SET records_matched = ${billed}::bigint, records_reserved = ${billed ?? 0}::bigint,
        possibly_billed = false, records_in_doubt = 0, is_sent = false, settled_at = now(), _synced_at = now()
      FROM open WHERE c.call_id = open.call_id)
    SELECT run_id, budget, reserved_at, records_reserved - ${billed ?? 0}::bigint AS records FROM open`);
  await lowerBudgets(session, names, run, calls);
}

/** Releases records in the periods and runs of their reservation. */
async function lowerBudgets(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  calls: readonly Reserved[],
): Promise<void> {
  const rows = calls.flatMap(({ run_id: runId, budget, reserved_at, records }) =>
    rowsOf({ ...run, runId, jobType: budget }, reserved_at, NO_LIMITS).map(
      (row): BudgetRow & { readonly records: number } => ({ ...row, records }),
    ),
  );
  if (rows.length === 0) return;
  await session.change(sql`
    WITH back AS (
      SELECT budget, period, period_key, sum(records)::bigint AS records FROM json_to_recordset(${JSON.stringify(rows)}::json)
        AS r(budget text, period text, period_key text, records bigint) GROUP BY 1, 2, 3),
    locked AS (
      SELECT u.budget, u.period, u.period_key, back.records
      FROM ${tableId(names, "budget_use")} AS u JOIN back USING (budget, period, period_key)
      ORDER BY u.budget COLLATE "C", u.period COLLATE "C", u.period_key COLLATE "C" FOR UPDATE OF u)
    UPDATE ${tableId(names, "budget_use")} AS u
    SET records_reserved = u.records_reserved - l.records, _synced_at = now(), _run_id = ${run.runId}
    FROM locked AS l WHERE (u.budget, u.period, u.period_key) = (l.budget, l.period, l.period_key)`);
}
