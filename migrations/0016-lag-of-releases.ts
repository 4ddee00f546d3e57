import { quoteIdentifier, type SchemaNames } from "../src/load/db/names.ts";
import { publicationView } from "./publication.ts";

/** Counts the time since the last batch that a destination's readers see as its lag. */
export function countReleases({ state, ops }: SchemaNames): readonly string[] {
  return [publicationView(quoteIdentifier(state), quoteIdentifier(ops))];
}
