import type { Outcomes } from "../../load/due/outcomes.ts";
import { type Counters, zeroCounters } from "../run-report.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";
import type { Coverage } from "../../load/runs/runs.ts";

/** Counters of what a selection found and did, before anything is sent. */
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

/** Record counters of a run: its selection's counts and the outcomes of the selected rows. */
export function recordCounters(counts: LookupCounts, outcomes: Outcomes): Counters {
  const found = foundCounters(counts);
  return {
    ...zeroCounters,
    ...found,
    records_sent: outcomes.sent,
    records_matched: outcomes.matched,
    records_rejected: found.records_rejected + outcomes.rejected,
    records_duplicate: found.records_duplicate + outcomes.duplicate,
    records_suppressed: found.records_suppressed + outcomes.suppressed,
    records_remaining: counts.remaining + outcomes.remaining,
  };
}

/** Share of the input that has an answer after a run. */
export function coverageOf({ states }: LookupCounts, { moves }: Outcomes, source: string): Coverage {
  const rows = { matched: states.matched, unmatched: states.unmatched, rejected: states.rejected };
  let { due } = states;
  for (const move of moves) {
    due -= move.rows;
    if (move.prior !== null) rows[move.prior] -= move.rows;
    rows[move.outcome] += move.rows;
  }
  return { source, inputRows: states.rows, answered: rows.matched + rows.unmatched, ...rows, due };
}
