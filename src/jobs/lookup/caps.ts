import type { BudgetConfig, Config } from "../../config/config.ts";
import { crashPoint } from "../../crash-point.ts";
import { type LimitedBy, LimitReachedError } from "../../errors.ts";
import type { Db } from "../../load/db/db.ts";
import type { BudgetPeriod, BudgetUse, RunUse, SendingLimits } from "../../load/ledger/budget-rows.ts";
import { reserveCall } from "../../load/ledger/reserve-call.ts";
import type { LookupRecord } from "../../load/lookups/lookup.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";
import type { Price } from "../../money.ts";
import type { Outage } from "../outage.ts";
import { type Shard, shareOf } from "../shard.ts";
import type { LookupJobConfig } from "./lookup-type.ts";

/** Run and limits of a reservation. */
interface Reserving {
  readonly run: RunRef;
  readonly limits: JobLimits;
  readonly price: Price | null;
  readonly kind: string;
  readonly outage: Outage;
}

/** Call about to be sent. */
interface PlannedCall {
  /** UUID. */
  readonly callId: string;
  readonly items: readonly LookupRecord[];
  /** Number of calls that contained these records, including this one. */
  readonly attempt: number;
  readonly plannedAtMs: number;
}

/**
 * Reserves a call in the budgets before it is sent, and waits out outages. Returns how many of its records are granted,
 * starting with the first, or the records whose claim it lost, such as those of erased people. Throws a LimitReachedError if a limit
 * is used up.
 */
export async function reserve(
  db: Db,
  endpoint: string,
  { run, limits, price, kind, outage }: Reserving,
  planned: PlannedCall,
): Promise<{ readonly granted: number; readonly erased: readonly string[] }> {
  crashPoint("before_reserve");
  const { callId, attempt, items, plannedAtMs } = planned;
  const startedAt = new Date(plannedAtMs).toISOString();
  const call = {
    callId,
    endpoint,
    attempt,
    startedAt,
    records: items.length,
    claimed: { kind, records: items },
    limits,
    price,
  };
  const { granted, limitedBy, lost = [] } = await outage.outlast(() => reserveCall(db, run, call));
  crashPoint("after_reserve");
  if (limitedBy === null) return { granted, erased: lost };
  const code = nameOfLimit(limits, limitedBy);
  throw new LimitReachedError(code, `${run.job}: ${code} is used up; no more records can be sent.`);
}

const NO_BUDGET: BudgetConfig = { perDay: null, perMonth: null };

/** Limits on the records of a job. */
export interface JobLimits extends SendingLimits {
  /** Name of the lower one of the two caps per run. */
  readonly perRunBy: "max_records" | "max_records_per_run";
}

/** Maximum records that can be sent now, with the limit responsible. */
export interface Cap {
  readonly records: number;
  readonly limitedBy: LimitedBy;
}

/**
 * Limits of a job: the budget of its type, the lower one of the job's and the command's cap, and this shard's part of it.
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

/** Name of a limit in results and messages. */
export function nameOfLimit(limits: JobLimits, period: BudgetPeriod): LimitedBy {
  if (period === "month") return "budget_month";
  return period === "day" ? "budget_day" : limits.perRunBy;
}

/** Records counted in each period so far. */
export type Used = Readonly<Record<BudgetPeriod, number>>;

/** Records currently counted in the budgets of a job type and in the run. */
export function usedOf(uses: readonly BudgetUse[], type: string, run: RunUse): Used {
  const sum = (period: BudgetUse["period"]) =>
    uses.find((use) => use.budget === type && use.period === period)?.records ?? 0;
  return { month: sum("month"), day: sum("day"), ...run };
}

/** Limit with the fewest records left; if equal, the one with the longest period. Null if nothing is limited. */
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
