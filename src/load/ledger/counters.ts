import type { Attempt } from "../../schemas/attempt.ts";
import type { RunCounter } from "../../schemas/ops.ts";

/** Additions to the run's counters. */
export type CounterDelta = Partial<Record<RunCounter, number>>;

/** Sums several additions. */
export function sumOf(deltas: readonly CounterDelta[]): CounterDelta {
  const sum: Record<string, number> = {};
  for (const delta of deltas) {
    for (const [name, value] of Object.entries(delta)) sum[name] = (sum[name] ?? 0) + value;
  }
  return sum;
}

/** Counters of attempts. */
export function countAttempts(ledger: readonly Attempt[]): CounterDelta {
  return {
    requests: ledger.length,
    retries: ledger.filter(({ attempt }) => attempt > 1).length,
    possibly_billed_twice: ledger.reduce((sum, entry) => sum + entry.possiblyBilledTwice, 0),
  };
}
