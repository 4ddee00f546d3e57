import type { Cap } from "./caps.ts";
import { countText } from "../../figures.ts";
import { capped, endOfError, failed, interrupted, type JobEnd, succeeded } from "../job-end.ts";
import { triedRecords } from "./reject-ratio.ts";
import type { Counters } from "../run-report.ts";
import type { Unanswered } from "./send.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";

/** Facts that determine the end of a job. */
export interface WorkDone {
  readonly job: string;
  /** Thrown error; null for none. */
  readonly thrown: { readonly error: unknown } | null;
  /** True after a signal. */
  readonly isStopped: boolean;
  readonly counts: LookupCounts;
  readonly counters: Counters;
  /** Records without an outcome, sent or not. */
  readonly open: number;
  readonly unanswered: Unanswered | null;
  /** Limit that cut the selection; null for none. */
  readonly cap: Cap | null;
  /** Maximum rejected / tried; null for no limit. */
  readonly maxRejectRatio: number | null;
}

/** Determines a job's end. A failure outranks every limit, and a signal only if the failure came first. */
export function judgeEnd(work: WorkDone): JobEnd {
  const { thrown, counts, cap } = work;
  if (thrown) {
    const end = endOfError(thrown.error, "sending records and loading answers");
    return end.status === "limited" ? (unansweredEnd(work, end) ?? end) : end;
  }
  if (work.isStopped && work.open > 0) return interrupted;
  const failure = unansweredEnd(work, null) ?? tooManyRejects(work);
  if (failure) return failure;
  return cap === null || counts.remaining === 0 ? succeeded : capped(cap.limitedBy);
}

function unansweredEnd({ job, unanswered }: WorkDone, limit: JobEnd | null): JobEnd | null {
  if (!unanswered) return null;
  const { records, because } = unanswered;
  const also = limit?.error ? ` Also: ${limit.error.message}` : "";
  return failed(
    "unanswered",
    `${job}: ${countText(records, "record")} got no answer and ${records === 1 ? "stays" : "stay"} due for the next run. ` +
      `Last reason: ${because}${also}`,
  );
}

function tooManyRejects({ job, counters, maxRejectRatio }: WorkDone): JobEnd | null {
  const tried = triedRecords(counters);
  if (maxRejectRatio === null || counters.records_rejected <= maxRejectRatio * tried) return null;
  return failed(
    "too_many_rejects",
    `${job}: ${counters.records_rejected} of ${countText(tried, "record")} were rejected, more than max_reject_ratio ` +
      `(${maxRejectRatio}) allows. The others were loaded; the table \`reject\` has the reasons.`,
  );
}
