import type { CounterDelta } from "../../load/ledger/counters.ts";
import type { OpenClaims } from "../../load/lookups/claims.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";
import { type Counters, zeroCounters } from "../run-report.ts";

/** Counters of what a reading found and did, before anything is sent. */
export function foundCounters(counts: LookupCounts) {
  return {
    records_read: counts.read,
    records_unchanged: counts.unchanged,
    records_duplicate: counts.reused,
    records_suppressed: counts.suppressed,
    records_waiting: counts.waiting,
    records_rejected: counts.rejectedBeforeSending,
    records_rejected_before_sending: counts.rejectedBeforeSending,
  };
}

/**
 * Counters of a run: what its reading and its commits recorded, and the claims left without an answer. Rows whose claim is gone
 * without an answer of this run name a person erased meanwhile.
 */
export function endCounters(counts: LookupCounts, recorded: CounterDelta, open: OpenClaims): Counters {
  const { records_sent: sent, records_duplicate: duplicate, ...others } = { ...zeroCounters, ...recorded };
  const answered = sent + duplicate - counts.reused;
  return {
    ...others,
    records_sent: sent + open.sent,
    records_duplicate: duplicate,
    records_suppressed: others.records_suppressed + counts.rowsToSend - answered - open.rows,
    records_remaining: counts.remaining + open.rows - open.sent,
  };
}
