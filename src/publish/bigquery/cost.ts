/** Bytes of a table that a batch changes, as counted by BigQuery. */
export interface ChangedTable {
  /** Bytes stored. */
  readonly stored: number;
  /** Bytes stored in the key columns. */
  readonly storedKeys: number;
  readonly stagedKeys: number;
  readonly stagedRows: number;
}

/** Minimum billed per statement and table. */
const MINIMUM_BYTES = 10 * 1024 * 1024;
const TIB = 1024 ** 4;
/** List price of on-demand queries in the US, per TiB. */
const USD_PER_TIB = 6.25;

/**
 * Bytes that one batch bills. A DELETE bills the columns that it reads and all columns of the table that it changes; an INSERT bills
 * the staged rows; and the position is updated.
 */
export function batchBytes(tables: readonly ChangedTable[]): number {
  const billed = (bytes: number) => Math.max(MINIMUM_BYTES, bytes);
  return tables.reduce((sum, { stored, storedKeys, stagedKeys, stagedRows }) => {
    const deletion = billed(stored + storedKeys) + billed(stagedKeys);
    return sum + deletion + billed(stagedRows) + MINIMUM_BYTES;
  }, MINIMUM_BYTES);
}

/** Price of bytes at list price. */
export function priceOf(bytes: number): number {
  return (bytes / TIB) * USD_PER_TIB;
}
