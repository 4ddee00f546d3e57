import type { Db } from "../db/db.ts";
import { sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { LookupType } from "../lookups/lookup.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Maximum records to send; null for no limit. */
export interface SendingLimits {
  /** Per UTC day, for all jobs of the type on all machines. */
  readonly perDay: number | null;
  /** Per UTC month, for all jobs of the type on all machines. */
  readonly perMonth: number | null;
  /** Per job and run id, for all shards of any division. */
  readonly perRun: number | null;
  /** Per shard and run id; ignored without shards. */
  readonly perShard: number | null;
}

/** Period of a budget or cap. */
export type BudgetPeriod = "day" | "month" | "run" | "shard";

/** Records counted in the caps of a run. */
export interface RunUse {
  /** All shards of any division. */
  readonly run: number;
  /** This shard; 0 for a run of the whole input. */
  readonly shard: number;
}

/** Records currently counted in a budget. */
export interface BudgetUse {
  readonly budget: LookupType;
  readonly period: "day" | "month";
  /** `2026-11-21` or `2026-11`, UTC. */
  readonly periodKey: string;
  readonly records: number;
}

/** One row of `budget_use`. */
export interface BudgetRow {
  readonly budget: string;
  readonly period: BudgetPeriod;
  readonly period_key: string;
}

/**
 * Rows for the caps of a run: one per run ID, and one per shard. Runs with different shard counts can share an ID;
 * the first row limits them together.
 */
function runRows(
  { job, runId, shard }: RunRef,
  { perRun, perShard }: SendingLimits,
): readonly (BudgetRow & { readonly most: number | null })[] {
  const ofRun = { budget: job, period: "run", period_key: runId, most: perRun } as const;
  if (shard === "0/1") return [ofRun];
  return [ofRun, { budget: job, period: "shard", period_key: `${runId} ${shard}`, most: perShard }];
}

/** Rows that count a call, each with its limit; `reservedAt` is ISO 8601, UTC. */
export function rowsOf(
  run: RunRef,
  reservedAt: string,
  limits: SendingLimits,
): readonly (BudgetRow & { readonly most: number | null })[] {
  return [
    { budget: run.jobType, period: "month", period_key: reservedAt.slice(0, 7), most: limits.perMonth },
    { budget: run.jobType, period: "day", period_key: reservedAt.slice(0, 10), most: limits.perDay },
    ...runRows(run, limits),
  ];
}

/** Creates missing rows, at zero. */
export async function makeBudgetRows(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  rows: readonly BudgetRow[],
): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(names, "budget_use")} (budget, period, period_key, records_reserved, _synced_at, _run_id)
    SELECT budget, period, period_key, 0, now(), ${run.runId}
    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS r(budget text, period text, period_key text)
    ORDER BY budget COLLATE "C", period COLLATE "C", period_key COLLATE "C"
    ON CONFLICT DO NOTHING`);
}

/** Records counted in the budgets of the current day and month. */
export async function readBudgetUse(db: Db): Promise<readonly BudgetUse[]> {
  const { names } = db;
  return db.transaction(async (session) => {
    return session.rows<BudgetUse>(sql`
    SELECT budget, period, period_key AS "periodKey", records_reserved AS records
    FROM ${tableId(names, "budget_use")}
    WHERE (period, period_key) IN (('day', ${session.now.slice(0, 10)}), ('month', ${session.now.slice(0, 7)}))
    ORDER BY budget, period`);
  });
}

/** Records reserved by a job in all runs of one ID. */
export async function readRunUse(db: Db, run: RunRef): Promise<RunUse> {
  const { names } = db;
  return db.transaction(async (session) => {
    const rows = await session.rows<{ period: BudgetPeriod; records: number }>(sql`
    SELECT period, records_reserved AS records FROM ${tableId(names, "budget_use")}
    WHERE budget = ${run.job}
      AND (period, period_key) IN (('run', ${run.runId}), ('shard', ${`${run.runId} ${run.shard}`}))`);
    const usedIn = (period: BudgetPeriod) => rows.find((row) => row.period === period)?.records ?? 0;
    return { run: usedIn("run"), shard: usedIn("shard") };
  });
}
