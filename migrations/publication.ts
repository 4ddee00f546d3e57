/** Creates the publication tables in the schema `state`, and a view of them in `ops`. Both names are quoted. */
export function createPublication(state: string, ops: string): readonly string[] {
  return [
    // `claimed` exceeds `confirmed` by at most one; then the batch may or may not be in the destination.
    `CREATE TABLE ${state}.destination (
      name text PRIMARY KEY,
      database text,
      claimed bigint NOT NULL DEFAULT 0,
      claimed_id uuid,
      confirmed bigint NOT NULL DEFAULT 0,
      confirmed_id uuid,
      needs_freshness boolean NOT NULL DEFAULT true,
      unreleased_since timestamp with time zone,
      rows_published bigint NOT NULL DEFAULT 0,
      last_published_at timestamp with time zone,
      last_verified_at timestamp with time zone,
      tables_differing text[])`,
    // Tables of a destination, with the columns of their last publication.
    `CREATE TABLE ${state}.followed_table (
      destination text NOT NULL,
      table_name text NOT NULL,
      columns text NOT NULL,
      PRIMARY KEY (destination, table_name))`,
    // Append-only between two claims, which scan it: an index would slow down every writer. A null key marks the whole table.
    `CREATE TABLE ${state}.dirty_key (
      destination text NOT NULL,
      table_name text NOT NULL,
      key jsonb,
      marked_at timestamp with time zone NOT NULL DEFAULT now())`,
    `CREATE TABLE ${state}.claimed_key (
      destination text NOT NULL,
      table_name text NOT NULL,
      key jsonb,
      marked_at timestamp with time zone NOT NULL)`,
    publicationView(state, ops),
    `COMMENT ON VIEW ${ops}.publication IS 'Destinations, with their last batch and pending changes. Not published.'`,
  ];
}

/** Names are quoted. The lag is the age of the oldest change that readers of the destination may not see. */
export function publicationView(state: string, ops: string): string {
  return `CREATE OR REPLACE VIEW ${ops}.publication AS
      SELECT d.name AS destination, d.confirmed AS batch_number, d.last_published_at, d.rows_published,
        coalesce(w.keys, 0) AS keys_waiting,
        greatest(ceil(extract(epoch FROM now() - least(w.oldest, d.unreleased_since))), 0)::bigint AS lag_seconds,
        d.last_verified_at, d.tables_differing
      FROM ${state}.destination AS d
      LEFT JOIN (
        SELECT destination, count(*) AS keys, min(marked_at) AS oldest
        FROM (SELECT destination, marked_at FROM ${state}.dirty_key
          UNION ALL SELECT destination, marked_at FROM ${state}.claimed_key) AS k
        GROUP BY destination) AS w ON w.destination = d.name`;
}
