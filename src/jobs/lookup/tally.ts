import type { LookupAnswer, LookupReject } from "../../load/lookups/answer.ts";
import type { LookupRecord } from "../../load/lookups/lookup.ts";

/** Outcome of several records. */
export interface Settled {
  readonly answers: readonly Pick<LookupAnswer, "record" | "outcome">[];
  readonly rejects: readonly Pick<LookupReject, "record">[];
}

/** Records given up without an answer. */
export interface Unanswered {
  readonly records: number;
  /** The last reason, as a sentence. */
  readonly because: string;
}

/** Adds up outcomes as they are committed, for the progress bar. The warehouse counts what the run reports. */
export interface Tally {
  settle(settled: Settled): void;
  /** Adds records without an answer, which stay due. */
  giveUp(records: readonly LookupRecord[], because: string): void;
  readonly matched: number;
  readonly rejected: number;
  readonly unanswered: Unanswered | null;
}

/** Moves answers that the warehouse refused to the rejects. */
export function withRefused({ answers, rejects }: Settled, recordIds: ReadonlySet<string>): Settled {
  const isRefused = ({ record }: { readonly record: LookupRecord }) => recordIds.has(record.recordId);
  return {
    answers: answers.filter((answer) => !isRefused(answer)),
    rejects: [...rejects, ...answers.filter(isRefused)],
  };
}

/** Starts at zero. */
export function createTally(): Tally {
  let matched = 0;
  let rejected = 0;
  let unanswered: Unanswered | null = null;
  return {
    settle({ answers, rejects }) {
      matched += answers.filter(({ outcome }) => outcome === "matched").length;
      rejected += rejects.length;
    },
    giveUp(records, because) {
      unanswered = { records: (unanswered?.records ?? 0) + records.length, because };
    },
    get matched() {
      return matched;
    },
    get rejected() {
      return rejected;
    },
    get unanswered() {
      return unanswered;
    },
  };
}
