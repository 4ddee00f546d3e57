/** Size of a published table. */
export interface StoredTable {
  readonly bytes: number;
  readonly rows: number;
  /** Columns that a deletion by key reads. */
  readonly keyColumns: number;
}

/** Least bytes that a statement bills for each table it names. */
const MINIMUM_BYTES = 10 * 1024 * 1024;
/** Of a key column: two bytes and the text of a PID. */
const KEY_BYTES = 38;
const TIB = 1024 ** 4;
/** List price of on-demand queries in the US, per TiB. */
const USD_PER_TIB = 6.25;

/**
 * Bytes that one batch bills if it changes every table, without what it inserts. A DELETE bills the columns that it names and all bytes
 * of the table; it names the staged keys, and the INSERT names the table and the staged rows.
 */
export function publicationBytes(tables: readonly StoredTable[]): number {
  return tables.reduce((sum, { bytes, rows, keyColumns }) => {
    const deletion = Math.max(MINIMUM_BYTES, bytes + rows * keyColumns * KEY_BYTES) + MINIMUM_BYTES;
    return sum + deletion + 2 * MINIMUM_BYTES;
  }, MINIMUM_BYTES);
}

/** Sentence on the cost of a publication. */
export function publicationCost(bytes: number): string {
  const gigabytes = (bytes / 1024 ** 3).toFixed(1);
  const dollars = ((bytes / TIB) * USD_PER_TIB).toFixed(2);
  return `A publication that changes every table bills about ${gigabytes} GB now, US$ ${dollars} at list price; \`every\` multiplies it.`;
}
