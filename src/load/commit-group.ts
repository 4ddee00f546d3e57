import type { Drift } from "../schemas/drift.ts";
import type {
  CommitGroup,
  CommitHead,
  CommitResult,
  CounterDelta,
  LookupCommit,
  LookupPart,
} from "./warehouse.ts";

/** A group in memory, for warehouses that are committed to often. */
export function gatherInMemory(
  head: CommitHead,
  commitLookup: (commit: LookupCommit) => Promise<CommitResult>,
): CommitGroup {
  const parts: LookupPart[] = [];
  return {
    add: async (part) => void parts.push(part),
    commit: () =>
      commitLookup({
        ...head,
        ledger: parts.flatMap((part) => part.ledger),
        answers: parts.flatMap((part) => part.answers),
        rejects: parts.flatMap((part) => part.rejects),
        drift: mergeDrift(parts.map((part) => part.drift)),
        counters: sumOf(parts.map((part) => part.counters)),
      }),
    discard: async () => {},
  };
}

/** Several calls' drift as one: places and kinds once each, occurrences added up. */
export function mergeDrift(lists: readonly (readonly Drift[])[]): readonly Drift[] {
  const merged = new Map<string, Drift>();
  for (const drift of lists.flat()) {
    const key = JSON.stringify([drift.endpoint, drift.path, drift.kind]);
    const known = merged.get(key);
    if (!known) merged.set(key, { ...drift });
    else {
      known.occurrences += drift.occurrences;
      known.observedType = drift.observedType;
    }
  }
  return [...merged.values()];
}

/** Several additions as one. */
export function sumOf(deltas: readonly CounterDelta[]): CounterDelta {
  const sum: Record<string, number> = {};
  for (const delta of deltas) {
    for (const [name, value] of Object.entries(delta)) sum[name] = (sum[name] ?? 0) + value;
  }
  return sum;
}
