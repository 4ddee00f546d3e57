import { readBudgetUse } from "../../load/ledger/reserve.ts";
import { type BudgetReport, budgetReports } from "./attention.ts";
import { usedOf } from "../lookup/lookup-spec.ts";
import type { JobPlan, PlanRequest } from "../job-type.ts";
import { UNLOCK } from "../../config/schema/document.ts";
import { type CostEstimate, estimateCost, priceOf, sumOfEstimates } from "../price.ts";
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
  /** With `prices`: sum of the jobs. */
  readonly estimated_cost?: CostEstimate;
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
  /** Records that earlier jobs will send, by type. */
  const sendingByType = new Map<string, number>();
  for (const job of jobs) {
    const used = usedOf(uses, job.type, { run: 0, shard: 0 });
    const before = sendingByType.get(job.type) ?? 0;
    const { plan, sending } = await jobTypeOf(job).plan(
      {
        ...services,
        earlier: plans,
        request,
        used: { ...used, month: used.month + before, day: used.day + before },
        spooled: byJob.get(job.name) ?? { calls: 0, bytes: 0 },
      },
      job,
    );
    sendingByType.set(job.type, before + sending);
    const price = priceOf(config, jobTypeOf(job).isBilled ? job.type : UNLOCK);
    const isBilled = jobTypeOf(job).isBilled || plan.estimated_billable.high > 0;
    const cost = price && isBilled ? { estimated_cost: estimateCost(plan.estimated_billable, price) } : {};
    plans.set(job.name, { ...plan, ...cost });
  }
  const all = [...plans.values()];
  const costs = all.flatMap(({ estimated_cost: cost }) => cost ?? []);
  return {
    jobs: all,
    budgets: budgetReports(config, uses),
    ...(config.prices ? { estimated_cost: sumOfEstimates(costs, config.prices.currency) } : {}),
  };
}
