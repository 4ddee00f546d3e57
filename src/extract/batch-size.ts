/** How large a decompressed answer should at most be. */
const TARGET_ANSWER_BYTES = 4 * 1024 * 1024;
/** Weight of the newest answer in the moving average. */
const NEWEST_WEIGHT = 0.3;
/** A size is kept until another would be this much larger, so that batches stay of equal size. */
const GROWTH = 1.5;

/** How many records go into one call. */
export interface BatchSize {
  /** Most records for the next call. */
  readonly limit: number;
  /** Takes note of an answer's decompressed size. */
  recordAnswer(plainBytes: number, records: number): void;
  /** Takes note that the service found this many records too large (413). */
  recordTooLarge(records: number): void;
}

/** Starts with as many records as the endpoint takes, and shrinks where answers grow too large. */
export function createBatchSize(maxRecords: number): BatchSize {
  let cap = maxRecords;
  let limit = maxRecords;
  let bytesPerRecord: number | null = null;

  return {
    get limit() {
      return limit;
    },
    recordAnswer(plainBytes, records) {
      if (records === 0) return;
      const newest = plainBytes / records;
      bytesPerRecord =
        bytesPerRecord === null ? newest : bytesPerRecord + NEWEST_WEIGHT * (newest - bytesPerRecord);
      const fitting = Math.max(1, Math.min(cap, Math.floor(TARGET_ANSWER_BYTES / bytesPerRecord)));
      if (fitting < limit || fitting === cap || fitting >= limit * GROWTH) limit = fitting;
    },
    recordTooLarge(records) {
      cap = Math.max(1, Math.min(cap, Math.floor(records / 2)));
      limit = Math.min(limit, cap);
    },
  };
}
