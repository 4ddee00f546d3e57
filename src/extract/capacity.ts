/** Maximum 402 responses before the plan counts as used up. */
const MAX_REFUSALS = 3;

/** After the first 402, uses the remaining credits with one call at a time. */
export interface Capacity {
  /** True after the first 402: only one call at a time. */
  readonly isTight: boolean;
  /** Maximum records for the next call. */
  limit(batchLimit: number): number;
  /** Records an answer to this many records. */
  recordAnswer(records: number): void;
  /**
   * Records a 402, with the number of records that it reports as available (null if not reported). Returns false if no
   * further call makes sense.
   */
  recordRefusal(available: number | null, wasTight: boolean): boolean;
}

/** Starts without a limit. */
export function createCapacity(): Capacity {
  let isTight = false;
  let refusals = 0;
  /** Records available according to the last 402, minus those answered since. 0 means unknown. */
  let available = 0;

  return {
    get isTight() {
      return isTight;
    },
    // If only matches are billed, more may be left than estimated, so at 0 a full batch is sent: a rejection is free.
    limit: (batchLimit) => (isTight && available > 0 ? Math.min(available, batchLimit) : batchLimit),
    recordAnswer(records) {
      available = Math.max(0, available - records);
    },
    recordRefusal(left, wasTight) {
      // Concurrent calls are rejected together, which counts as one rejection.
      if (wasTight || !isTight) refusals += 1;
      isTight = true;
      available = left ?? 0;
      return available > 0 && refusals <= MAX_REFUSALS;
    },
  };
}
