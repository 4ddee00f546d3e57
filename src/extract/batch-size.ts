/** Target size of a decompressed answer. */
const TARGET_ANSWER_BYTES = 4 * 1024 * 1024;
/** Weight of the newest answer in the moving average. */
const NEWEST_WEIGHT = 0.3;
/** The limit grows only by at least this factor, so that batches keep the same size. */
const GROWTH = 1.5;

/** Number of records per call. */
export interface BatchSize {
  /** Maximum records for the next call. */
  readonly limit: number;
  /** Records the decompressed size of an answer. */
  recordAnswer(plainBytes: number, records: number): void;
  /** Records that a call with this many records, or its answer, was too large. */
  recordTooLarge(records: number): void;
}

/** Starts with the endpoint's maximum, and decreases it if answers are too large. */
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
      // Smaller batches don't help a record that is too large on its own.
      if (records === 1) return;
      cap = Math.max(1, Math.min(cap, Math.floor(records / 2)));
      limit = Math.min(limit, cap);
    },
  };
}
