import { quoteLiteral, quoteQualified, quoteIdentifier, type SchemaNames } from "../src/load/db/names.ts";
import { publicationView } from "./publication.ts";

const docs = {
  last_published_at: "When readers last saw a new batch.",
  lag_seconds: "Age in seconds of the oldest change that readers may not see yet; 0 for none.",
};

/** Keeps, instead of whether readers of a destination see all that it has, since when they don't, and counts it as lag. */
export function countUnreleased({ state, ops }: SchemaNames): readonly string[] {
  const destination = quoteQualified([state, "destination"]);
  const view = quoteQualified([ops, "publication"]);
  return [
    `ALTER TABLE ${destination} ADD COLUMN IF NOT EXISTS unreleased_since timestamp with time zone`,
    // A new warehouse lacks the former column.
    `UPDATE ${destination} AS d SET unreleased_since = coalesce(last_published_at, now()) WHERE to_jsonb(d) ->> 'is_released' = 'false'`,
    publicationView(quoteIdentifier(state), quoteIdentifier(ops)),
    `ALTER TABLE ${destination} DROP COLUMN IF EXISTS is_released`,
    ...Object.entries(docs).map(([name, doc]) => `COMMENT ON COLUMN ${view}.${name} IS ${quoteLiteral(doc)}`),
  ];
}
