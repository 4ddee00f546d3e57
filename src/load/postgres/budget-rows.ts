import { sql } from "kysely";
import type { BudgetPeriod, BudgetUse, RunRef, SendingLimits } from "../warehouse.ts";
import { type SchemaNames, tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** One row of `budget_use`. */
export interface BudgetRow {
  readonly budget: string;
  readonly period: BudgetPeriod;
  readonly period_key: string;
}

/** Key of the row for a run's own cap. */
export function runRow({ job, runId, shard }: RunRef): BudgetRow {
  return { budget: job, period: "run", period_key: shard === "0/1" ? runId : `${runId} ${shard}` };
}

/** The rows that a call counts in, each with the most that it may come to; `reservedAt` is ISO 8601, UTC. */
export function rowsOf(
  run: RunRef,
  reservedAt: string,
  limits: SendingLimits,
): readonly (BudgetRow & { readonly most: number | null })[] {
  return [
    { budget: run.jobType, period: "month", period_key: reservedAt.slice(0, 7), most: limits.perMonth },
    { budget: run.jobType, period: "day", period_key: reservedAt.slice(0, 10), most: limits.perDay },
    { ...runRow(run), most: limits.perRun },
  ];
}

/** Makes rows that aren't there yet, at zero. */
export async function makeBudgetRows(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  rows: readonly BudgetRow[],
): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(names, "ops", "budget_use")} (budget, period, period_key, records_reserved, _synced_at, _run_id)
    SELECT budget, period, period_key, 0, now(), ${run.runId}
    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS r(budget text, period text, period_key text)
    ORDER BY budget COLLATE "C", period COLLATE "C", period_key COLLATE "C"
    ON CONFLICT DO NOTHING`);
}

/** What counts in the budgets of the present day and month. */
export async function readBudgetUse(session: Session, names: SchemaNames): Promise<readonly BudgetUse[]> {
  return session.rows<BudgetUse>(sql`
    SELECT budget, period, period_key AS "periodKey", records_reserved AS records
    FROM ${tableId(names, "ops", "budget_use")}
    WHERE (period, period_key) IN (('day', ${session.now.slice(0, 10)}), ('month', ${session.now.slice(0, 7)}))
    ORDER BY budget, period`);
}

/** Records that a job has reserved in runs of one id. */
export async function readRunUse(session: Session, names: SchemaNames, run: RunRef): Promise<number> {
  const { budget, period, period_key } = runRow(run);
  const [row] = await session.rows<{ records: number }>(sql`
    SELECT records_reserved AS records FROM ${tableId(names, "ops", "budget_use")}
    WHERE budget = ${budget} AND period = ${period} AND period_key = ${period_key}`);
  return row?.records ?? 0;
}
