import type { Attempt } from "../extract/lookup-item.ts";
import type { CounterDelta } from "../load/lookup.ts";

/** Counters for a list of attempts. */
export function countAttempts(ledger: readonly Attempt[]): CounterDelta {
  return {
    requests: ledger.length,
    retries: ledger.filter(({ attempt }) => attempt > 1).length,
    possibly_billed_twice: ledger.reduce((sum, attempt) => sum + attempt.possiblyBilledTwice, 0),
  };
}
