import { type SchemaNames, tableText } from "../src/load/db/names.ts";

/** Indexes the states by the content that was sent, so that finding an answer to reuse doesn't read all of them. */
export function createSentContentIndex(names: SchemaNames): readonly string[] {
  // A hash index takes half the space of a B-tree.
  return [
    `CREATE INDEX IF NOT EXISTS lookup_state_by_sent_hash ON ${tableText(names, "lookup_state")} USING hash (sent_hash)`,
  ];
}
