import { quoteLiteral, quoteQualified, type SchemaNames } from "../src/load/db/names.ts";

const publicationDocs = {
  destination: "Name of the destination.",
  batch_number: "Number of the last confirmed batch; 0 before the first.",
  last_published_at: "When a batch was last confirmed.",
  rows_published: "Rows published since the destination was added.",
  keys_waiting: "Changed keys that are not published yet.",
  lag_seconds: "Age of the oldest of them in seconds; 0 for none.",
  last_verified_at: "When all tables were last compared.",
  tables_differing: "Tables that differed in that comparison.",
};

/**
 * Comments the columns of the view `publication`. Adds what pushes did to their runs and segments, and marks the segments that a push
 * has left for another one. Gives checkpoints of versions that stored no name the name under which the segment was filled, so that a
 * changed name creates another segment from the first run on.
 */
export function recordPushes(names: SchemaNames): readonly string[] {
  const segment = quoteQualified([names.data, "segment"]);
  const sync = `ALTER TABLE ${quoteQualified([names.ops, "segment_sync"])}`;
  const pushed = ["sent", "push_added", "redundant", "push_removed", "unknown"];
  const counters = ["records_added", "records_redundant", "records_removed"];
  const view = quoteQualified([names.ops, "publication"]);
  return [
    ...Object.entries(publicationDocs).map(
      ([name, doc]) => `COMMENT ON COLUMN ${view}.${name} IS ${quoteLiteral(doc)}`,
    ),
    ...pushed.map((name) => `${sync} ADD COLUMN IF NOT EXISTS ${name} bigint`),
    ...["current_size", "known_members", "removals_pending"].map(
      (name) => `${sync} ALTER COLUMN ${name} DROP NOT NULL`,
    ),
    ...counters.map(
      (name) =>
        `ALTER TABLE ${quoteQualified([names.ops, "sync_run"])} ADD COLUMN IF NOT EXISTS ${name} bigint NOT NULL DEFAULT 0`,
    ),
    `ALTER TABLE ${segment} ADD COLUMN IF NOT EXISTS is_configured boolean`,
    `UPDATE ${segment} SET is_configured = true, _synced_at = now()`,
    `UPDATE ${quoteQualified([names.ops, "checkpoint"])} AS c
      SET cursor = c.cursor || jsonb_build_object('name', s.name), _synced_at = now()
      FROM ${segment} AS s
      WHERE c.stream = 'segment' AND c.cursor ->> 'segment_id' = s.segment_id AND NOT c.cursor ? 'name'`,
  ];
}
