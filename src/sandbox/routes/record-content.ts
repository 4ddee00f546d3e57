/** A record's content as the ledger compares it: everything but the `record_id`. */
export function contentOf(record: unknown): string {
  return JSON.stringify(record, (key, value: unknown) => (key === "record_id" ? undefined : value));
}
