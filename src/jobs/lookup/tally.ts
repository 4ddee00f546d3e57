import type {
  CounterDelta,
  Coverage,
  LookupAnswer,
  LookupCounts,
  LookupRecord,
  LookupReject,
  Outcome,
  RowMove,
} from "../../load/lookup.ts";
import type { RunCounter } from "../../schemas/ops.ts";
import { type Counters, zeroCounters } from "../run-report.ts";

/** Outcome of several records. */
export interface Settled {
  readonly answers: readonly Pick<LookupAnswer, "record" | "outcome">[];
  readonly rejects: readonly Pick<LookupReject, "record">[];
  /** Records without an answer, which remain due. */
  readonly setAside: readonly LookupRecord[];
  /** Reason of the last one, as a sentence; null if there are none. */
  readonly setAsideBecause: string | null;
}

/** Records given up without an answer. */
export interface Unanswered {
  readonly records: number;
  /** The last reason. */
  readonly because: string;
}

/** Counts the outcome of a run's rows. */
export interface Tally {
  /** Counts records that the service has or may have processed, each once. */
  send(records: readonly LookupRecord[]): void;
  /** Counts the outcome of committed records, each once. */
  settle(settled: Settled): void;
  /** Counts the changes of a commit by input row. */
  move(moves: readonly RowMove[]): void;
  /** Adds to the counters. */
  add(delta: CounterDelta): void;
  /** Current counters; `records_remaining` are the rows not sent yet. */
  counters(): Counters;
  /** Current coverage of the input. */
  coverage(source: string): Coverage;
  /** Records sent without an outcome yet. */
  readonly open: number;
  readonly unanswered: Unanswered | null;
}

/** Lists all records with an outcome. */
export function recordsOf({ answers, rejects, setAside }: Settled): readonly LookupRecord[] {
  return [...answers.map(({ record }) => record), ...rejects.map(({ record }) => record), ...setAside];
}

/** Moves answers that the warehouse rejected to the rejects. */
export function withRefused(settled: Settled, recordIds: ReadonlySet<string>): Settled {
  if (recordIds.size === 0) return settled;
  const isRefused = ({ record }: { readonly record: LookupRecord }) => recordIds.has(record.recordId);
  return {
    ...settled,
    answers: settled.answers.filter((answer) => !isRefused(answer)),
    rejects: [...settled.rejects, ...settled.answers.filter(isRefused)],
  };
}

/** Counters for settled records. */
export function countSettled(settled: Settled) {
  const records = recordsOf(settled);
  return {
    records_sent: records.length,
    records_matched: settled.answers.filter(({ outcome }) => outcome === "matched").length,
    records_rejected: settled.rejects.length,
  } satisfies CounterDelta;
}

/** Creates a tally from the counts of a selection. */
export function createTally(counts: LookupCounts): Tally {
  const added: Record<RunCounter, number> = {
    ...zeroCounters,
    records_read: counts.read,
    records_unchanged: counts.unchanged,
    records_suppressed: counts.suppressed,
    records_waiting: counts.waiting,
    records_rejected: counts.rejectedBeforeSending,
    records_rejected_before_sending: counts.rejectedBeforeSending,
  };
  const states: Record<Outcome, number> = {
    matched: counts.states.matched,
    unmatched: counts.states.unmatched,
    rejected: counts.states.rejected,
  };
  /** IDs of records sent without an outcome yet: at most those in flight. */
  const open = new Set<string>();
  /** Input rows of answered or rejected records, beyond one each. */
  let duplicates = 0;
  let unanswered: Unanswered | null = null;
  let rowsDue = counts.states.due;

  function add(delta: CounterDelta): void {
    // The cast restores the key type that Object.entries loses.
    for (const [name, value] of Object.entries(delta)) added[name as RunCounter] += value;
  }

  function counters(): Counters {
    const duplicate = counts.reused + duplicates;
    const leftOut = counts.unchanged + counts.waiting + counts.suppressed + counts.rejectedBeforeSending;
    const ended = leftOut + duplicate + added.records_sent;
    return { ...added, records_duplicate: duplicate, records_remaining: counts.read - ended };
  }

  function send(records: readonly LookupRecord[]): void {
    for (const record of records) {
      if (open.has(record.recordId)) continue;
      open.add(record.recordId);
      added.records_sent += 1;
    }
  }

  return {
    add,
    counters,
    get open() {
      return open.size;
    },
    get unanswered() {
      return unanswered;
    },
    send,
    settle(settled) {
      send(recordsOf(settled));
      for (const record of recordsOf(settled)) open.delete(record.recordId);
      duplicates -= settled.answers.length + settled.rejects.length;
      if (settled.setAside.length > 0) {
        const records = (unanswered?.records ?? 0) + settled.setAside.length;
        unanswered = { records, because: settled.setAsideBecause ?? "" };
      }
      const { records_matched, records_rejected } = countSettled(settled);
      add({ records_matched, records_rejected });
    },
    move(moves) {
      for (const { prior, outcome, rows, occurrences } of moves) {
        rowsDue -= rows;
        if (prior !== null) states[prior] -= rows;
        states[outcome] += rows;
        duplicates += occurrences;
      }
    },
    coverage(source) {
      return {
        source,
        inputRows: counts.states.rows,
        answered: states.matched + states.unmatched,
        matched: states.matched,
        unmatched: states.unmatched,
        rejected: states.rejected,
        due: rowsDue,
      };
    },
  };
}

/**
 * Returns an error in a finished run's counters, or null. Every row read must be counted exactly once: as unchanged,
 * duplicate, suppressed, waiting, sent, rejected before sending, or remaining.
 */
export function findLeak(counters: Counters, counts: LookupCounts): string | null {
  const c = counters;
  const ended =
    c.records_unchanged +
    c.records_duplicate +
    c.records_suppressed +
    c.records_waiting +
    c.records_sent +
    c.records_rejected_before_sending +
    c.records_remaining;
  if (ended !== c.records_read) return `${c.records_read} rows were read, but ${ended} are accounted for`;
  // Every record that was not sent accounts for at least one remaining row.
  const atLeast = counts.remaining + counts.toSend - c.records_sent;
  if (c.records_sent <= counts.toSend && c.records_remaining >= atLeast) return null;
  return (
    `${c.records_sent} of ${counts.toSend} records were sent and ${c.records_remaining} rows remain, ` +
    `${counts.remaining} of them beyond the cap`
  );
}
