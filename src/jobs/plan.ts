import type { FeedJobConfig, LookupJobConfig } from "../config/config.ts";
import { isLookupJob } from "../config/job-kinds.ts";
import type { LimitedBy } from "../errors.ts";
import type { DueReason } from "../load/warehouse.ts";
import { type BudgetReport, budgetReports } from "./budget-report.ts";
import { limitsOf, tightestCap, type Used, usedOf } from "./caps.ts";
import type { BillableEstimate } from "./estimate.ts";
import { bindFeed } from "./feed-types.ts";
import { forecastOf } from "./forecast.ts";
import { selectJobs } from "./job-selection.ts";
import { lookupSpecOf, plainRequest } from "./lookup-spec.ts";
import { checkServiceHost } from "./service-host.ts";
import type { JobServices } from "./services.ts";
import { type Shard, wholeInput } from "./shard.ts";
import { reportWaiting, type WaitingAnswers } from "./waiting-answers.ts";
import { verifyInputs } from "./verify-inputs.ts";

/** One job in the document of `plan --json`. */
export interface JobPlan {
  readonly job: string;
  readonly type: string;
  readonly records_read: number;
  readonly records_due: number;
  readonly due_reasons: Readonly<Partial<Record<DueReason, number>>>;
  readonly records_unchanged: number;
  readonly records_duplicate: number;
  /** Rows that wait for the job that `pid_from` names. */
  readonly records_waiting: number;
  /** Rows kept back because the person was erased. */
  readonly records_suppressed: number;
  readonly records_rejected_before_sending: number;
  /** Distinct records that are due now, as many as caps and budgets let through. */
  readonly records_to_send: number;
  /** Rows due beyond that. */
  readonly records_remaining: number;
  /** The cap or budget that leaves them; null when nothing is left. */
  readonly limited_by: LimitedBy | null;
  /** Records that the budgets leave for this job, after the jobs before it; null where none is set. */
  readonly budget_left: number | null;
  /** Like the estimates, with the rows that wait for a job that comes first in the same run. */
  readonly calls: number;
  readonly estimated_billable: BillableEstimate;
  readonly estimated_seconds: number;
  /** Bytes that the selection reads, and this plan has read, where reading is paid for by the byte (BigQuery); else null. */
  readonly bytes_to_scan: number | null;
  /** Received answers in this data_dir, which a run loads first: their records are not sent, though they count as due here. */
  readonly waiting_answers: WaitingAnswers;
}

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
  services: Pick<JobServices, "config" | "warehouse">,
  names: readonly string[],
  shard: Shard = wholeInput,
): Promise<PlanReport> {
  const { config, warehouse } = services;
  const jobs = selectJobs(config, names);
  await verifyInputs(config, warehouse, jobs);
  await checkServiceHost(config, warehouse);
  const uses = await warehouse.budgetUse();
  const { byJob } = await reportWaiting(config, warehouse);
  const plans: JobPlan[] = [];
  const planned = new Set(jobs.map((job) => job.name));
  /** Records that the jobs before it will send, by type. */
  const toCome: Partial<Record<LookupJobConfig["type"], number>> = {};
  for (const job of jobs) {
    if (!isLookupJob(job)) {
      plans.push(planFeed(job));
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

/** A feed is free, and what it holds is not known before it is read. */
function planFeed(job: FeedJobConfig): JobPlan {
  const { calls, toSend } = bindFeed(job).forecast;
  return {
    job: job.name,
    type: job.type,
    records_read: 0,
    records_due: 0,
    due_reasons: {},
    records_unchanged: 0,
    records_duplicate: 0,
    records_suppressed: 0,
    records_waiting: 0,
    records_rejected_before_sending: 0,
    records_to_send: toSend,
    records_remaining: 0,
    limited_by: null,
    budget_left: null,
    calls,
    estimated_billable: { low: 0, expected: 0, high: 0, basis: "free" },
    estimated_seconds: 0,
    bytes_to_scan: null,
    waiting_answers: { calls: 0, bytes: 0 },
  };
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
  { config, warehouse }: Pick<JobServices, "config" | "warehouse">,
  job: LookupJobConfig,
  { planned, shard, used }: Surroundings,
): Promise<{ readonly plan: Omit<JobPlan, "waiting_answers">; readonly sending: number }> {
  const limits = limitsOf(config, job, null, shard);
  const cap = tightestCap(limits, used);
  const spec = await lookupSpecOf(job, { ...plainRequest, shard, maxRecords: cap?.records ?? null });
  const counts = await warehouse.planLookup(spec);
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
    records_remaining: counts.remaining,
    limited_by: isCut ? cap.limitedBy : null,
    budget_left: tightestCap({ ...limits, perRun: null, perShard: null }, used)?.records ?? null,
    calls: forecast.calls,
    estimated_billable: forecast.billable,
    estimated_seconds: forecast.seconds,
    bytes_to_scan: await warehouse.scannedBytes(spec),
  };
  return { plan, sending: forecast.records };
}
