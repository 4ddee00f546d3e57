import type { JobConfig } from "../../config/config.ts";
import { countText } from "./estimate.ts";
import type { Counters } from "../run-report.ts";

/** Rejected / tried beyond which people are told of a job without a `max_reject_ratio`, and the records that it takes for a ratio. */
const UNUSUAL_RATIO = 0.05;
const FEW_RECORDS = 1000;

/** The counters that tell how many records were rejected. */
export type RejectCounters = Pick<
  Counters,
  "records_sent" | "records_rejected" | "records_rejected_before_sending"
>;

/** Records that a run tried: what it sent, and what it rejected before sending. */
export function triedRecords(counters: RejectCounters): number {
  return counters.records_sent + counters.records_rejected_before_sending;
}

/**
 * What is told of a run that rejected unusually many records; null when it didn't. A job with a bound of its own fails beyond
 * that, and nothing else is unusual for it.
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
