import type { JobConfig } from "../../config/config.ts";
import { countText } from "../../figures.ts";
import type { Counters } from "../run-report.ts";

/** Ratio of rejected / tried records to report for jobs without `max_reject_ratio`, and the minimum number of records. */
export const UNUSUAL_RATIO = 0.05;
const FEW_RECORDS = 1000;

/** Counters needed for the reject ratio. */
export type RejectCounters = Pick<
  Counters,
  "records_sent" | "records_rejected" | "records_rejected_before_sending"
>;

/** Records that a run tried: those sent and those rejected before sending. */
export function triedRecords(counters: RejectCounters): number {
  return counters.records_sent + counters.records_rejected_before_sending;
}

/**
 * Message about a run that rejected unusually many records; null if it didn't. Jobs with their own `max_reject_ratio` fail
 * instead.
 */
export function unusualRejects(
  job: Pick<JobConfig, "name"> & { readonly maxRejectRatio?: number | null },
  counters: RejectCounters,
): string | null {
  if (job.maxRejectRatio !== null) return null;
  const tried = triedRecords(counters);
  const { records_rejected: rejected } = counters;
  if (tried < FEW_RECORDS || rejected <= UNUSUAL_RATIO * tried) return null;
  return `${job.name}: ${rejected} of ${countText(tried, "record")} were rejected, more than ${UNUSUAL_RATIO * 100} %.`;
}
