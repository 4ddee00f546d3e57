import { quoteQualified, type SchemaNames } from "../src/load/db/names.ts";

/**
 * Marks the segments that a push has left for another one. Gives checkpoints of versions that stored no name the name under which
 * the segment was filled, so that a changed name creates another segment from the first run on.
 */
export function recordPushes(names: SchemaNames): readonly string[] {
  const segment = quoteQualified([names.data, "segment"]);
  return [
    `ALTER TABLE ${segment} ADD COLUMN IF NOT EXISTS is_configured boolean`,
    `UPDATE ${segment} SET is_configured = true, _synced_at = now()`,
    `UPDATE ${quoteQualified([names.ops, "checkpoint"])} AS c
      SET cursor = c.cursor || jsonb_build_object('name', s.name), _synced_at = now()
      FROM ${segment} AS s
      WHERE c.stream = 'segment' AND c.cursor ->> 'segment_id' = s.segment_id AND NOT c.cursor ? 'name'`,
  ];
}
