import { planLookup } from "../../load/due/lookup-selection.ts";
import { readBudgetUse } from "../../load/ledger/budget-rows.ts";
import type { LookupJobConfig } from "../../config/config.ts";
import { isLookupJob } from "../../config/job-kinds.ts";
import { type BudgetReport, budgetReports } from "./budget-report.ts";
import { limitsOf, tightestCap, type Used, usedOf } from "../lookup/caps.ts";
import { forecastOf } from "../lookup/forecast.ts";
import type { JobPlan } from "./job-plan.ts";
import { selectJobs } from "../job-selection.ts";
import { lookupSpecOf, plainRequest } from "../lookup/lookup-spec.ts";
import { planFeed } from "./plan-feed.ts";
import { checkServiceHost } from "../service-host.ts";
import type { JobServices } from "../services.ts";
import { type Shard, wholeInput } from "../shard.ts";
import { reportWaiting } from "../lookup/waiting-answers.ts";
import { verifyInputs } from "../verify-inputs.ts";

/** The document of `plan --json`. */
export interface PlanReport {
  readonly jobs: readonly JobPlan[];
  /** What is left at present, before any of the jobs. */
  readonly budgets: readonly BudgetReport[];
}

/**
 * Tells what a run of the named jobs, or of all, would do; changes nothing and sends nothing.
 * @param shard the part of every input that is looked at; the services' configuration is this part's.
 */
export async function planJobs(
  services: Pick<JobServices, "config" | "db" | "clock">,
  names: readonly string[],
  shard: Shard = wholeInput,
): Promise<PlanReport> {
  const { config, db } = services;
  // As in a run: feeds are left to the first shard.
  const jobs = selectJobs(config, names).filter((job) => shard.index === 0 || isLookupJob(job));
  await verifyInputs(config, db, jobs);
  await checkServiceHost(config, db);
  const uses = await readBudgetUse(db);
  const { byJob } = await reportWaiting(config, db);
  const plans: JobPlan[] = [];
  const planned = new Set(jobs.map((job) => job.name));
  /** Records that the jobs before it will send, by type. */
  const toCome: Partial<Record<LookupJobConfig["type"], number>> = {};
  const sizesToCome = new Map<string, number>();
  for (const job of jobs) {
    if (!isLookupJob(job)) {
      const { plan, sizeToCome } = await planFeed(services, job, sizesToCome);
      if (sizeToCome !== null) sizesToCome.set(job.name, sizeToCome);
      plans.push(plan);
      continue;
    }
    const used = usedOf(uses, job.type, { run: 0, shard: 0 });
    const before = toCome[job.type] ?? 0;
    const { plan, sending } = await planJob(services, job, {
      planned,
      shard,
      used: { ...used, month: used.month + before, day: used.day + before },
    });
    toCome[job.type] = before + sending;
    plans.push({ ...plan, waiting_answers: byJob.get(job.name) ?? { calls: 0, bytes: 0 } });
  }
  return { jobs: plans, budgets: budgetReports(config, uses) };
}

/** What a job's plan depends on beside the job. */
interface Surroundings {
  /** Names of all jobs of the plan. */
  readonly planned: ReadonlySet<string>;
  readonly shard: Shard;
  /** Before this job, with what the jobs before it will send. */
  readonly used: Used;
}

async function planJob(
  { config, db }: Pick<JobServices, "config" | "db">,
  job: LookupJobConfig,
  { planned, shard, used }: Surroundings,
): Promise<{ readonly plan: Omit<JobPlan, "waiting_answers">; readonly sending: number }> {
  const limits = limitsOf(config, job, null, shard);
  const cap = tightestCap(limits, used);
  const spec = await lookupSpecOf(job, { ...plainRequest, shard, maxRecords: cap?.records ?? null });
  const counts = await planLookup(db, spec);
  const isAnsweredFirst = spec.pidFrom !== null && planned.has(spec.pidFrom);
  const waiting = isAnsweredFirst ? counts.waiting : 0;
  const forecast = forecastOf(config, job, counts, { cap, toCome: waiting });
  const isCut = cap !== null && (counts.remaining > 0 || counts.toSend + waiting > cap.records);
  const plan = {
    job: job.name,
    type: job.type,
    records_read: counts.read,
    records_due: counts.due,
    due_reasons: counts.dueReasons,
    records_unchanged: counts.unchanged,
    records_duplicate: counts.duplicate,
    records_waiting: counts.waiting,
    records_suppressed: counts.suppressed,
    records_rejected_before_sending: counts.rejectedBeforeSending,
    records_to_send: counts.toSend,
    records_to_remove: 0,
    records_remaining: counts.remaining,
    limited_by: isCut ? cap.limitedBy : null,
    budget_left: tightestCap({ ...limits, perRun: null, perShard: null }, used)?.records ?? null,
    calls: forecast.calls,
    estimated_billable: forecast.billable,
    estimated_seconds: forecast.seconds,
    remarks: [],
  };
  return { plan, sending: forecast.records };
}
