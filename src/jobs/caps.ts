import type { Config, JobConfig } from "../config/config.ts";
import type { LimitedBy } from "../errors.ts";
import type { BudgetPeriod, BudgetUse, SendingLimits } from "../load/warehouse.ts";

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

/** The limits of a job: the budget of its type, and the smaller one of its own cap and the command's. */
export function limitsOf(
  config: Pick<Config, "budgets">,
  job: Pick<JobConfig, "type" | "maxRecordsPerRun">,
  maxRecords: number | null,
): JobLimits {
  const { maxRecordsPerRun } = job;
  const isOfCommand = maxRecords !== null && maxRecords <= (maxRecordsPerRun ?? maxRecords);
  return {
    ...config.budgets[job.type],
    perRun: isOfCommand ? maxRecords : maxRecordsPerRun,
    perRunBy: isOfCommand ? "max_records" : "max_records_per_run",
  };
}

/** What a limit is called where a job is said to be limited by it. */
export function nameOfLimit(limits: JobLimits, period: BudgetPeriod): LimitedBy {
  if (period === "run") return limits.perRunBy;
  return period === "day" ? "budget_day" : "budget_month";
}

/** Records that count in each period so far. */
export type Used = Readonly<Record<BudgetPeriod, number>>;

/** What counts in the budget of a type of job at present, and in the run. */
export function usedOf(uses: readonly BudgetUse[], type: JobConfig["type"], run: number): Used {
  const sum = (period: BudgetPeriod) =>
    uses.find((use) => use.budget === type && use.period === period)?.records ?? 0;
  return { month: sum("month"), day: sum("day"), run };
}

/** The limit that leaves the fewest records, of equal ones the longest lasting; null when nothing is limited. */
export function tightestCap(limits: JobLimits, used: Used): Cap | null {
  const most = { month: limits.perMonth, day: limits.perDay, run: limits.perRun };
  let tightest: Cap | null = null;
  for (const period of ["month", "day", "run"] as const) {
    const limit = most[period];
    if (limit === null) continue;
    const records = Math.max(0, limit - used[period]);
    if (tightest === null || records < tightest.records) {
      tightest = { records, limitedBy: nameOfLimit(limits, period) };
    }
  }
  return tightest;
}
