import type { LimitedBy } from "../../errors.ts";
import type { DueReason } from "../../load/lookup.ts";
import type { Used } from "../lookup/caps.ts";
import type { BillableEstimate } from "../lookup/estimate.ts";
import type { WaitingAnswers } from "../lookup/waiting-answers.ts";
import type { JobServices } from "../services.ts";
import type { Shard } from "../shard.ts";

/** One job in the document of `plan --json`. A job of free calls has calls only. */
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
  /** Distinct records due now, as many as caps and budgets allow; counted like `records_sent` of the run. */
  readonly records_to_send: number;
  /** Rows due beyond that. */
  readonly records_remaining: number;
  /** The cap or budget that leaves them; null if nothing is left. */
  readonly limited_by: LimitedBy | null;
  /** Records that the budgets leave for this job, after the jobs before it; null if none is set. */
  readonly budget_left: number | null;
  /** Like the estimates, with the rows that wait for an earlier job of the same run. The least number for free calls. */
  readonly calls: number;
  readonly estimated_billable: BillableEstimate;
  readonly estimated_seconds: number;
  /** Received answers in this data_dir, which a run loads first: their records are not sent, though they count as due here. */
  readonly waiting_answers: WaitingAnswers;
  /** Remarks on the figures, as phrases; empty for lookups. */
  readonly remarks: readonly string[];
}

/** A plan of several jobs, at one of them. */
export interface PlanContext extends Pick<JobServices, "config" | "db" | "clock"> {
  /** Names of all jobs of the plan. */
  readonly planned: ReadonlySet<string>;
  readonly shard: Shard;
  /** Use of the budget of the job's type, with the records that earlier jobs of the plan will send. */
  readonly used: Used;
  /** Answers of the job that wait on disk. */
  readonly waitingAnswers: WaitingAnswers;
}

/** A job's plan. */
export interface Planned {
  readonly plan: JobPlan;
  /** Records that the run will send, for the budgets of later jobs. */
  readonly sending: number;
}
