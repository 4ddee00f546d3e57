import { readBudgetUse, unused } from "../../load/ledger/reserve.ts";
import { type BudgetReport, budgetReports } from "./attention.ts";
import { usedOf } from "../lookup/lookup-spec.ts";
import type { JobPlan, PlanRequest } from "../job-type.ts";
import { UNLOCK } from "../../config/schema/prices.ts";
import {
  assumptionText,
  certainlyBilled,
  type CostEstimate,
  estimateCost,
  priceOf,
  sumOfEstimates,
} from "../price.ts";
import { selectJobs } from "../job-selection.ts";
import { jobTypeOf } from "../registry.ts";
import { type JobServices, wholeInput } from "../services.ts";
import { reportSpooled } from "../lookup/job-spool.ts";
import { migrateVerified } from "../prepare.ts";

/** Output of `plan --json`. */
export interface PlanReport {
  readonly jobs: readonly JobPlan[];
  /** Budgets before the first job. */
  readonly budgets: readonly BudgetReport[];
  /** With `prices`: all jobs together. */
  readonly estimated_cost?: CostEstimate;
  /** Assumption about the billed unit, where `prices` doesn't state it; empty if it does. */
  readonly assumption?: string;
}

/**
 * Predicts what a run of the named jobs (or all) would do. Creates or upgrades the tables, as the run would, but sends nothing.
 * @param given options of the run; `services.config` must belong to its shard
 */
export async function planJobs(
  services: Pick<JobServices, "config" | "db" | "clock">,
  names: readonly string[],
  given: Partial<PlanRequest> = {},
): Promise<PlanReport> {
  const { config, db } = services;
  const request = { shard: wholeInput, resend: false, maxRecords: null, show: 0, ...given };
  const { shard } = request;
  const jobs = selectJobs(config, names).filter((job) => shard.index === 0 || jobTypeOf(job).isSharded);
  await migrateVerified(config, db, jobs);
  const uses = await readBudgetUse(db);
  const { byJob } = await reportSpooled(config, db);
  const plans = new Map<string, JobPlan>();
  /** Uses with what earlier jobs will send and are expected to be billed. */
  const expected = new Map(uses);
  const totals = new Map<string, Record<"low" | "expected" | "high", number>>();
  for (const job of jobs) {
    const type = jobTypeOf(job);
    const { isBilled } = type;
    const budget = isBilled ? job.type : UNLOCK;
    const used = usedOf(expected, budget, { run: 0, shard: 0 });
    const spooled = byJob.get(job.name) ?? { calls: 0, bytes: 0 };
    const { plan, sending } = await type.plan({ ...services, earlier: plans, request, used, spooled }, job);
    const { day, month, billed } = used;
    const { low, expected: billable, high } = plan.estimated_billable;
    const today = { least: billed.today.least + billable, most: billed.today.most + sending };
    expected.set(budget, { day: day + sending, month: month + sending, billed: { ...billed, today } });
    const price = priceOf(config, budget);
    if (price === null || (!isBilled && high === 0)) {
      plans.set(job.name, plan);
      continue;
    }
    const estimated_cost = estimateCost(plan.estimated_billable, price, certainlyBilled(used));
    plans.set(job.name, { ...plan, estimated_cost });
    const sum = totals.get(budget) ?? { low: 0, expected: 0, high: 0 };
    totals.set(budget, { low: sum.low + low, expected: sum.expected + billable, high: sum.high + high });
  }
  const costs = [...totals].flatMap(([budget, total]) => {
    const price = priceOf(config, budget);
    return price ? [estimateCost(total, price, certainlyBilled(uses.get(budget) ?? unused))] : [];
  });
  return {
    jobs: [...plans.values()],
    budgets: budgetReports(config, uses),
    ...(config.prices
      ? { estimated_cost: sumOfEstimates(costs, config.prices.currency), assumption: assumptionText(config) }
      : {}),
  };
}
