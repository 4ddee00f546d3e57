import type { BudgetConfig, Config } from "../../config/config.ts";
import type { LimitedBy } from "../../errors.ts";
import type { BudgetPeriod, BudgetUse, RunUse, SendingLimits } from "../../load/lookup.ts";
import { type Shard, shareOf } from "../shard.ts";
import type { LookupJobConfig } from "./lookup-type.ts";

const NO_BUDGET: BudgetConfig = { perDay: null, perMonth: null };

/** All that the user allows a job to send. */
export interface JobLimits extends SendingLimits {
  /** Which of the two caps of a run is the one that holds. */
  readonly perRunBy: "max_records" | "max_records_per_run";
}

/** Most records that can be sent now, and the limit that leaves no more. */
export interface Cap {
  readonly records: number;
  readonly limitedBy: LimitedBy;
}

/**
 * The limits of a job: the budget of its type, the smaller one of its own cap and the command's, and this shard's part of that.
 */
export function limitsOf(
  config: Pick<Config, "budgets">,
  job: Pick<LookupJobConfig, "type" | "maxRecordsPerRun">,
  maxRecords: number | null,
  shard: Shard,
): JobLimits {
  const { maxRecordsPerRun } = job;
  const isOfCommand = maxRecords !== null && maxRecords <= (maxRecordsPerRun ?? maxRecords);
  const perRun = isOfCommand ? maxRecords : maxRecordsPerRun;
  return {
    ...(config.budgets[job.type] ?? NO_BUDGET),
    perRun,
    perShard: perRun === null ? null : shareOf(perRun, shard),
    perRunBy: isOfCommand ? "max_records" : "max_records_per_run",
  };
}

/** What a limit is called where a job is said to be limited by it. */
export function nameOfLimit(limits: JobLimits, period: BudgetPeriod): LimitedBy {
  if (period === "month") return "budget_month";
  return period === "day" ? "budget_day" : limits.perRunBy;
}

/** Records that count in each period so far. */
export type Used = Readonly<Record<BudgetPeriod, number>>;

/** What counts in the budget of a type of job at present, and in the run. */
export function usedOf(uses: readonly BudgetUse[], type: string, run: RunUse): Used {
  const sum = (period: BudgetUse["period"]) =>
    uses.find((use) => use.budget === type && use.period === period)?.records ?? 0;
  return { month: sum("month"), day: sum("day"), ...run };
}

/** The limit that leaves the fewest records, of equal ones the longest lasting; null when nothing is limited. */
export function tightestCap(limits: JobLimits, used: Used): Cap | null {
  const { perMonth: month, perDay: day, perRun: run, perShard: shard } = limits;
  const most = { month, day, run, shard };
  let tightest: Cap | null = null;
  for (const period of ["month", "day", "run", "shard"] as const) {
    const limit = most[period];
    if (limit === null) continue;
    const records = Math.max(0, limit - used[period]);
    if (tightest === null || records < tightest.records) {
      tightest = { records, limitedBy: nameOfLimit(limits, period) };
    }
  }
  return tightest;
}
