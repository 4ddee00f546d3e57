import { timeText } from "../../figures.ts";
import { adviceFor } from "../../advice.ts";
import type { BudgetOutlook } from "./budget-outlook.ts";
import type { Freshness } from "./freshness.ts";
import { isSuccess } from "../../load/runs/success.ts";

/** Problem that needs the user's attention. */
export interface AttentionReport {
  /** Job or budget. */
  readonly subject: string;
  readonly code: string;
  readonly message: string;
  readonly what_to_do: string;
}

/** Parts of a job's status that are checked for problems. */
interface JobFare {
  readonly job: string;
  readonly enabled: boolean;
  readonly freshness: Freshness;
  readonly last_success_at: string | null;
  readonly last_run: {
    readonly status: string;
    readonly limited_by: string | null;
    readonly error: string | null;
  } | null;
  readonly held_by: readonly {
    readonly run_id: string;
    readonly host: string;
    readonly is_expired: boolean;
  }[];
}

/** Problems to show at the top of `status`. `unusualRejects` contains messages about jobs with unusually many rejects. */
export function attentionOf(
  jobs: readonly JobFare[],
  unusualRejects: ReadonlyMap<string, string>,
  budgets: readonly BudgetOutlook[],
  budgetRatio: number,
): readonly AttentionReport[] {
  const enabled = jobs.filter((job) => job.enabled);
  return [
    ...enabled.flatMap(jobAttention),
    ...enabled.flatMap(({ job }) => {
      const message = unusualRejects.get(job);
      return message === undefined ? [] : [note(job, "many_rejects", message)];
    }),
    ...budgets.flatMap((budget) => {
      const { used, limit, left, period } = budget;
      if (limit === 0 || (left > 0 && used < budgetRatio * limit)) return [];
      const code = left === 0 ? "used_up" : "nearly_used";
      const until =
        budget.lasts_until === null ? "" : `, used up at ${timeText(budget.lasts_until)} at this pace`;
      const message = `${used} of ${limit} records of the ${period} are used${left === 0 ? "" : until}; renewed at ${timeText(budget.resets_at)}.`;
      return [note(`budget ${budget.budget} ${period}`, code, message)];
    }),
  ];
}

function jobAttention(report: JobFare): readonly AttentionReport[] {
  const { job, last_run: run, freshness, held_by: holders } = report;
  const dead = holders.filter(({ is_expired }) => is_expired);
  const found = dead.map(({ run_id, host }) =>
    note(
      job,
      "lock_expired",
      `Run ${run_id} on ${host} has sent no heartbeat for too long; the next run takes over.`,
    ),
  );
  if (run?.status === "failed" || run?.status === "skipped") {
    found.push(note(job, run.status, run.error ?? "The job did not succeed."));
  } else if (run?.status === "limited" && !isSuccess({ status: run.status, limitedBy: run.limited_by })) {
    const code = run.limited_by ?? "limited";
    found.push(note(job, code, run.error ?? `The job stopped at ${code}.`));
  }
  if (freshness === "stale" && found.length === 0) {
    const since = report.last_success_at === null ? "never" : `at ${timeText(report.last_success_at)}`;
    found.push(note(job, "stale", `The last success was ${since}; the job has been due since.`));
  }
  return found;
}

/** Makes an entry with the advice for its code. */
export function note(subject: string, code: string, message: string): AttentionReport {
  return { subject, code, message, what_to_do: adviceFor(code).next };
}
