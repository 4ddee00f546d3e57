import { type Counters, zeroCounters } from "./run-report.ts";
import type { Attempt } from "../schemas/attempt.ts";
import { countAttempts, sumOf, type CounterDelta } from "../load/ledger/counters.ts";

/** Totals of a job's run, with the part that is not recorded yet. */
export interface RunTotals {
  /** Adds an attempt to the totals and to the next commit. */
  addAttempt(attempt: Attempt): void;
  /** Adds to the totals and to the next commit. */
  add(counters: CounterDelta): void;
  /** Adds counters that the warehouse has already recorded. */
  addRecorded(counters: CounterDelta): void;
  /** Takes everything not recorded yet. */
  take(): Unrecorded;
  /** Returns counters and attempts of a failed commit. Attempts that were recorded anyway count only once. */
  putBack(taken: Unrecorded): void;
  counters(): Counters;
}

/** Attempts and counters for the next commit. */
export interface Unrecorded {
  readonly ledger: readonly Attempt[];
  readonly counters: CounterDelta;
}

/** Creates totals of zero. */
export function createTotals(): RunTotals {
  let totals: CounterDelta = {};
  let waiting: CounterDelta = {};
  let ledger: Attempt[] = [];
  const add = (counters: CounterDelta) => {
    totals = sumOf([totals, counters]);
    waiting = sumOf([waiting, counters]);
  };
  return {
    addAttempt(attempt) {
      ledger.push(attempt);
      add(countAttempts([attempt]));
    },
    add,
    addRecorded(counters) {
      totals = sumOf([totals, counters]);
    },
    take() {
      const taken = { ledger, counters: waiting };
      ledger = [];
      waiting = {};
      return taken;
    },
    putBack(taken) {
      ledger = [...taken.ledger, ...ledger];
      waiting = sumOf([taken.counters, waiting]);
    },
    counters: () => ({ ...zeroCounters, ...totals }),
  };
}
