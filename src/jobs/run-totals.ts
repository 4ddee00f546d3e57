import type { Attempt } from "../extract/lookup-item.ts";
import { sumOf } from "../load/ledger/books.ts";
import type { CounterDelta } from "../load/lookup.ts";
import { countAttempts } from "./call-counters.ts";
import { type Counters, zeroCounters } from "./run-report.ts";

/** Totals of a job's run, and the part of them that no commit has recorded yet. */
export interface RunTotals {
  /** Adds a call's attempt to the totals and to the next commit. */
  addAttempt(attempt: Attempt): void;
  /** Adds to the totals and to the next commit. */
  add(counters: CounterDelta): void;
  /** Adds counters that the warehouse has recorded already. */
  addRecorded(counters: CounterDelta): void;
  /** Takes everything that isn't recorded yet. */
  take(): Unrecorded;
  /** Returns what a failed commit took; attempts recorded all the same count once. */
  putBack(taken: Unrecorded): void;
  counters(): Counters;
}

/** Attempts and counters for the next commit. */
export interface Unrecorded {
  readonly ledger: readonly Attempt[];
  readonly counters: CounterDelta;
}

/** Starts at zero. */
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
