import { type RawBuilder, sql } from "kysely";
import type { BudgetPeriod, BudgetUse, RunRef, RunUse, SendingLimits } from "../warehouse.ts";
import { jsonRows } from "./json-rows.ts";
import { tableId } from "./names.ts";
import { NOW, type Session } from "./session.ts";

/** One counter, and the most that it may come to; the key of a day or month comes with the moment. */
export interface Counter {
  readonly budget: string;
  readonly period: BudgetPeriod;
  readonly key: string | null;
  readonly most: number | null;
}

/** The counters that calls of a run count in. */
export function countersOf(run: RunRef, limits: SendingLimits): readonly Counter[] {
  const { job, jobType, runId, shard } = run;
  return [
    { budget: jobType, period: "month", key: null, most: limits.perMonth },
    { budget: jobType, period: "day", key: null, most: limits.perDay },
    { budget: job, period: "run", key: runId, most: limits.perRun },
    ...(shard === "0/1"
      ? []
      : [{ budget: job, period: "shard", key: `${runId} ${shard}`, most: limits.perShard } as const]),
  ];
}

/** Counters without a bound. */
export const NO_LIMITS: SendingLimits = { perDay: null, perMonth: null, perRun: null, perShard: null };

/** The key of a counter at a moment, of columns `period` and `key`. */
export function keyAt(moment: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`CASE period WHEN 'day' THEN FORMAT_TIMESTAMP('%Y-%m-%d', ${moment}) WHEN 'month' THEN FORMAT_TIMESTAMP('%Y-%m', ${moment})
    ELSE key END`;
}

/** Counters as a relation: budget, period, period_key at that moment, most. */
export function counterRows(
  counters: readonly Counter[],
  moment: RawBuilder<unknown> = NOW,
): RawBuilder<unknown> {
  const columns = { budget: "STRING", period: "STRING", key: "STRING", most: "INT64" } as const;
  return sql`SELECT budget, period, ${keyAt(moment)} AS period_key, most
    FROM (${jsonRows(sql`${JSON.stringify(counters)}`, columns)})`;
}

/** What counts in the budgets of the present day and month. */
export async function readBudgetUse(session: Session): Promise<readonly BudgetUse[]> {
  const now = sql`CURRENT_TIMESTAMP()`;
  return session.rows<BudgetUse>(sql`
    SELECT budget, period, period_key AS periodKey, records_reserved AS records
    FROM ${tableId(session.names, "ops", "budget_use")}
    WHERE (period = 'day' AND period_key = FORMAT_TIMESTAMP('%Y-%m-%d', ${now}))
      OR (period = 'month' AND period_key = FORMAT_TIMESTAMP('%Y-%m', ${now}))
    ORDER BY budget, period`);
}

/** Records that a job has reserved in runs of one id. */
export async function readRunUse(session: Session, run: RunRef): Promise<RunUse> {
  const rows = await session.rows<{ period: BudgetPeriod; records: number }>(sql`
    SELECT period, records_reserved AS records FROM ${tableId(session.names, "ops", "budget_use")}
    WHERE budget = ${run.job} AND ((period = 'run' AND period_key = ${run.runId})
      OR (period = 'shard' AND period_key = ${`${run.runId} ${run.shard}`}))`);
  const of = (period: BudgetPeriod) => rows.find((row) => row.period === period)?.records ?? 0;
  return { run: of("run"), shard: of("shard") };
}
