import { type RawBuilder, sql } from "kysely";

/** A column that is read out of JSON objects. */
export type JsonColumn = "STRING" | "INT64" | "BOOL" | "TIMESTAMP";

/**
 * The rows of a list of JSON objects as a relation; `list` is STRING: a parameter or a variable. An absent or null field is
 * NULL. Timestamps are ISO 8601.
 */
export function jsonRows(
  list: RawBuilder<unknown>,
  columns: Readonly<Record<string, JsonColumn>>,
): RawBuilder<unknown> {
  const read = Object.entries(columns).map(([name, type]) => {
    const text = `JSON_VALUE(e, '$.${name}')`;
    return sql.raw(`${type === "STRING" ? text : `CAST(${text} AS ${type})`} AS ${name}`);
  });
  return sql`SELECT ${sql.join(read)} FROM UNNEST(JSON_QUERY_ARRAY(${list})) AS e`;
}
