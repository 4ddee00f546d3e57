import { type SchemaNames, tableText } from "../src/load/db/names.ts";

/** Indexes states by the content sent, so that an answer to reuse is found without scanning the table. */
export function createSentContentIndex(names: SchemaNames): readonly string[] {
  // Not a hash index: that becomes slow when many rows have the same content.
  return [
    `CREATE INDEX IF NOT EXISTS lookup_state_by_sent_hash ON ${tableText(names, "lookup_state")} (sent_hash)`,
  ];
}
