import type { LookupCounts } from "../../load/lookup.ts";
import type { Cap } from "./caps.ts";
import { countText } from "./estimate.ts";
import { capped, endOfError, failed, interrupted, type JobEnd, succeeded } from "../job-end.ts";
import { triedRecords } from "./reject-ratio.ts";
import type { Counters } from "../run-report.ts";
import { findLeak, type Unanswered } from "./tally.ts";

/** Facts that determine the end of a job. */
export interface WorkDone {
  readonly job: string;
  /** Thrown error; null for none. */
  readonly thrown: { readonly error: unknown } | null;
  /** True after a signal. */
  readonly isStopped: boolean;
  readonly counts: LookupCounts;
  readonly counters: Counters;
  /** Records sent without an outcome. */
  readonly open: number;
  readonly unanswered: Unanswered | null;
  /** Limit that cut the selection; null for none. */
  readonly cap: Cap | null;
  /** Maximum rejected / tried; null for no limit. */
  readonly maxRejectRatio: number | null;
}

/** Determines a job's end. A failure outranks every limit, and a signal only if the failure came first. */
export function judgeEnd(work: WorkDone): JobEnd {
  const end = withoutBooks(work);
  const leak = end.status === "failed" ? null : (findLeak(work.counters, work.counts) ?? findLost(work));
  return leak === null
    ? end
    : failed("counters_do_not_add_up", `${work.job}: ${leak}. This is a bug; please report it.`);
}

/** Without a limit or a signal, every record that was sent must have an outcome. */
function findLost({ thrown, isStopped, open }: WorkDone): string | null {
  return thrown || isStopped || open === 0 ? null : `${countText(open, "record")} sent without an outcome`;
}

function withoutBooks(work: WorkDone): JobEnd {
  const { thrown, counts, counters, cap } = work;
  if (thrown) {
    const end = endOfError(thrown.error);
    return end.status === "limited" ? (unansweredEnd(work, end) ?? end) : end;
  }
  const isUnfinished = counters.records_sent < counts.toSend || work.open > 0;
  if (work.isStopped && isUnfinished) return interrupted;
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
