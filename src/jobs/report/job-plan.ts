import type { LimitedBy } from "../../errors.ts";
import type { Used } from "../lookup/caps.ts";
import type { BillableEstimate } from "../lookup/estimate.ts";
import type { WaitingAnswers } from "../lookup/waiting-answers.ts";
import type { CostEstimate } from "../price.ts";
import type { JobServices, RunRequest } from "../services.ts";
import type { DueReason } from "../../load/lookups/counts.ts";

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
  readonly waiting_answers: WaitingAnswers;
  /** True if the run asks first, or needs `--yes`; `remarks` has the reason. */
  readonly needs_confirmation: boolean;
  /** Remarks on the numbers; empty for lookups. */
  readonly remarks: readonly string[];
  /** First requests of a lookup, with `--show`. */
  readonly requests?: readonly ShownRequest[];
}

/** Request that a run would make. */
export interface ShownRequest {
  readonly method: string;
  readonly path: string;
  /** Number of records in the body. */
  readonly records: number;
  /** The body; printed as JSON without blanks, it has the bytes that are sent. */
  readonly body: object;
}

/** Options of a plan. */
export interface PlanRequest extends Pick<RunRequest, "resend" | "maxRecords" | "shard"> {
  /** Maximum requests of each lookup to show; 0 for none. */
  readonly show: number;
}

/** Context for planning one job. */
export interface PlanContext extends Pick<JobServices, "config" | "db" | "clock"> {
  /** Plans of the jobs that run before, by job. */
  readonly earlier: ReadonlyMap<string, JobPlan>;
  readonly request: PlanRequest;
  /** Use of the budget of the job's type, including records that earlier jobs of the plan will send. */
  readonly used: Used;
  /** Received answers of the job that are not loaded yet. */
  readonly waitingAnswers: WaitingAnswers;
}

/** Plan of a job. */
export interface Planned {
  readonly plan: JobPlan;
  /** Records that the run will send, for the budgets of later jobs. */
  readonly sending: number;
}
