import type { LimitedBy } from "../../errors.ts";
import type { DueReason } from "../../load/lookup.ts";
import type { BillableEstimate } from "../lookup/estimate.ts";
import type { WaitingAnswers } from "../lookup/waiting-answers.ts";

/** One job in the document of `plan --json`. */
export interface JobPlan {
  readonly job: string;
  readonly type: string;
  readonly records_read: number;
  readonly records_due: number;
  /** A push adds who is `not_a_member` yet, and everybody again when a `full_sweep` is due. */
  readonly due_reasons: Readonly<Partial<Record<DueReason | "not_a_member" | "full_sweep", number>>>;
  readonly records_unchanged: number;
  readonly records_duplicate: number;
  /** Rows that wait for the job that `pid_from` names. */
  readonly records_waiting: number;
  /** Rows kept back because the person was erased. */
  readonly records_suppressed: number;
  readonly records_rejected_before_sending: number;
  /** Distinct records that are due now, as many as caps and budgets let through, as `records_sent` of the run counts them. */
  readonly records_to_send: number;
  /** Beside them, members whom a push would remove from its segment. */
  readonly records_to_remove: number;
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
  /** Received answers in this data_dir, which a run loads first: their records are not sent, though they count as due here. */
  readonly waiting_answers: WaitingAnswers;
  /** What the figures of a feed don't tell, as phrases; empty for lookups. */
  readonly remarks: readonly string[];
}
