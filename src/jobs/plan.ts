import type { JobConfig } from "../config/config.ts";
import type { DueReason } from "../load/warehouse.ts";
import type { BillableEstimate } from "./estimate.ts";
import { forecastOf } from "./forecast.ts";
import { selectJobs } from "./job-selection.ts";
import { lookupSpecOf, plainRequest } from "./lookup-spec.ts";
import { checkServiceHost } from "./service-host.ts";
import type { JobServices } from "./services.ts";
import { type Shard, wholeInput } from "./shard.ts";
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
  readonly records_rejected_before_sending: number;
  /** Distinct records that are due now. */
  readonly records_to_send: number;
  /** Like the estimates, with the rows that wait for a job that comes first in the same run. */
  readonly calls: number;
  readonly estimated_billable: BillableEstimate;
  readonly estimated_seconds: number;
}

/** The document of `plan --json`. */
export interface PlanReport {
  readonly jobs: readonly JobPlan[];
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
  const plans: JobPlan[] = [];
  const planned = new Set(jobs.map((job) => job.name));
  for (const job of jobs) plans.push(await planJob(services, job, planned, shard));
  return { jobs: plans };
}

async function planJob(
  { config, warehouse }: Pick<JobServices, "config" | "warehouse">,
  job: JobConfig,
  planned: ReadonlySet<string>,
  shard: Shard,
): Promise<JobPlan> {
  const spec = await lookupSpecOf(job, { ...plainRequest, shard });
  const counts = await warehouse.planLookup(spec);
  const isAnsweredFirst = spec.pidFrom !== null && planned.has(spec.pidFrom);
  const forecast = forecastOf(config, job, counts, isAnsweredFirst ? counts.waiting : 0);
  return {
    job: job.name,
    type: job.type,
    records_read: counts.read,
    records_due: counts.due,
    due_reasons: counts.dueReasons,
    records_unchanged: counts.unchanged,
    records_duplicate: counts.duplicate,
    records_waiting: counts.waiting,
    records_rejected_before_sending: counts.rejectedBeforeSending,
    records_to_send: counts.toSend,
    calls: forecast.calls,
    estimated_billable: forecast.billable,
    estimated_seconds: forecast.seconds,
  };
}
