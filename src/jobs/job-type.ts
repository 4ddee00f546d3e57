import type { z } from "zod";
import type { Config, JobConfig } from "../config/config.ts";
import type { JobDeclaration } from "../config/schema/jobs.ts";
import type { LimitedBy } from "../errors.ts";
import type { FreeEndpoint } from "../extract/free-call.ts";
import type { DueReason } from "../load/lookups/counts.ts";
import type { StoredCheckpoint } from "../load/write/commit.ts";
import type { JobContext, WorkResult } from "./job.ts";
import type { BillableEstimate } from "./lookup/estimate.ts";
import type { SpooledAnswers } from "./lookup/job-spool.ts";
import type { Used } from "./lookup/lookup-spec.ts";
import type { CostEstimate } from "./price.ts";
import type { JobServices, RunRequest } from "./services.ts";
import type { ReadSource } from "./sources.ts";

/** One job in `plan --json`. A feed has only calls. */
export interface JobPlan {
  readonly job: string;
  readonly type: string;
  readonly records_read: number;
  readonly records_due: number;
  readonly due_reasons: Readonly<Partial<Record<DueReason, number>>>;
  readonly records_unchanged: number;
  readonly records_duplicate: number;
  /** Rows that wait for the job named in `pid_from`. */
  readonly records_waiting: number;
  /** Rows skipped because the person was erased. */
  readonly records_suppressed: number;
  readonly records_rejected_before_sending: number;
  /** The same by reject code. */
  readonly reject_reasons: Readonly<Record<string, number>>;
  /** Distinct records due now, within caps and budgets; counted like `records_sent` of the run. */
  readonly records_to_send: number;
  /** Records of the whole run: also those of rows that wait for an earlier job of it, within caps and budgets. */
  readonly records_expected: number;
  /** Due rows beyond caps and budgets. */
  readonly records_remaining: number;
  /** Cap or budget responsible for the remaining rows; null if there are none. */
  readonly limited_by: LimitedBy | null;
  /** Records left in the budgets, after the earlier jobs of the plan; null without a budget. */
  readonly budget_left: number | null;
  /** Like the estimates, includes rows that wait for an earlier job of the same run. For feeds the minimum. */
  readonly calls: number;
  readonly estimated_billable: BillableEstimate;
  /** With `prices`, for a job that can be billed. */
  readonly estimated_cost?: CostEstimate;
  readonly estimated_seconds: number;
  /** Received answers in this data_dir. A run loads them first instead of sending their records, which count as due here. */
  readonly waiting_answers: SpooledAnswers;
  /** True if the run asks first, or needs `--yes`; `remarks` has the reason. */
  readonly needs_confirmation: boolean;
  /** Remarks on the numbers; empty for lookups. */
  readonly remarks: readonly string[];
  /** First requests of a lookup, with `--show`. */
  readonly requests?: readonly ShownRequest[];
}

export interface ShownRequest {
  readonly method: string;
  readonly path: string;
  readonly records: number;
  /** The body; printed as JSON without blanks, it has the bytes that are sent. */
  readonly body: object;
}

export interface PlanRequest extends Pick<RunRequest, "resend" | "maxRecords" | "shard"> {
  /** Maximum requests of each lookup to show; 0 for none. */
  readonly show: number;
}

export interface PlanContext extends Pick<JobServices, "config" | "db" | "clock"> {
  /** Plans of the jobs that run before, by job. */
  readonly earlier: ReadonlyMap<string, JobPlan>;
  readonly request: PlanRequest;
  /** Use of the budget of the job's type, including records that earlier jobs of the plan will send. */
  readonly used: Used;
  readonly spooled: SpooledAnswers;
}

export interface Planned {
  readonly plan: JobPlan;
  /** Records that the run will send, for the budgets of later jobs. */
  readonly sending: number;
}

export interface JobCheckpoints<J extends JobConfig = JobConfig> {
  readonly meaning: string;
  readonly cursor: z.ZodObject;
  /** Keys that depend on the value of another one, and are forgotten when users change that. */
  readonly dependent?: { readonly on: string; readonly keys: readonly string[] };
  readonly example: object;
  streams(job: J, services: Pick<JobServices, "config" | "db">): Promise<readonly string[]>;
  /** Reason why a job has no stream; empty if each has one. */
  readonly noStream: string;
}

export interface JobType<J extends JobConfig = JobConfig> extends JobDeclaration {
  /** Those whose access `check` can try. */
  readonly endpoints: readonly FreeEndpoint[];
  /** Result tables, which are fresh after a successful run. */
  readonly writes: readonly string[];
  /** True if each shard of a run does a part; otherwise the first shard does everything. */
  readonly isSharded: boolean;
  /** Null: every run compares a fingerprint of each input row, so there is no position to resume from. */
  readonly checkpoints: JobCheckpoints<J> | null;
  reads(job: J, config: Config): readonly ReadSource[];
  /** Consequences of the configuration that `plan` and `check` report before the next run; none by default. */
  remarks?(job: J, checkpoints: readonly StoredCheckpoint[]): readonly string[];
  /** Predicts the effect of {@link run} without a call. */
  plan(services: PlanContext, job: J): Promise<Planned>;
  /** Does the work of one run; the shell in `job.ts` does the rest. */
  run(context: JobContext<J>): Promise<WorkResult>;
}
