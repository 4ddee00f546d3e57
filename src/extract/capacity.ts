/** How often the service may say that its plan can't cover a call, before we believe that nothing is left. */
const MAX_REFUSALS = 3;

/** Uses up what the plan still covers after the first 402: one call at a time, never larger than what is left. */
export interface Capacity {
  /** True after the first 402: no two calls at a time any more. */
  readonly isTight: boolean;
  /** Most records for the next call. */
  limit(batchLimit: number): number;
  /** Takes note of an answer to so many records. */
  recordAnswer(records: number): void;
  /**
   * Takes note of a 402 and of how many records it says are left (null: it doesn't say). Returns false when there is
   * no point in going on.
   */
  recordRefusal(available: number | null, wasTight: boolean): boolean;
}

/** Starts with plenty. */
export function createCapacity(): Capacity {
  let isTight = false;
  let refusals = 0;
  /** Records left as the last 402 said, less what was answered since; 0 when that is used up, which is only a guess. */
  let available = 0;

  return {
    get isTight() {
      return isTight;
    },
    // Where only matches are charged more is left than we think, so the next call asks: a refusal costs nothing.
    limit: (batchLimit) => (isTight && available > 0 ? Math.min(available, batchLimit) : batchLimit),
    recordAnswer(records) {
      available = Math.max(0, available - records);
    },
    recordRefusal(left, wasTight) {
      // Calls that were in flight together are refused together; that is one refusal.
      if (wasTight || !isTight) refusals += 1;
      isTight = true;
      available = left ?? 0;
      return available > 0 && refusals <= MAX_REFUSALS;
    },
  };
}
