/** First row of each group of rows, in an order. */
interface FirstRows {
  /** Table, or subquery in parentheses. */
  readonly from: string;
  /** Columns of the result. */
  readonly columns: readonly string[];
  /** Columns with equal values in a group; never null. */
  readonly groupBy: readonly string[];
  /** Columns, with `DESC` for descending; null comes last. Unique within a group. */
  readonly orderBy: readonly string[];
  /** Condition on the rows of an alias; the others count as absent. */
  readonly where?: (alias: string) => string;
}

/** True if the row `b` comes before `m`. */
function comesBefore([first = "", ...rest]: readonly string[]): string {
  const [name, direction] = first.split(" ");
  const isBefore = `b.${name} ${direction === "DESC" ? ">" : "<"} m.${name} OR b.${name} IS NOT NULL AND m.${name} IS NULL`;
  if (rest.length === 0) return isBefore;
  return `${isBefore} OR b.${name} IS NOT DISTINCT FROM m.${name} AND (${comesBefore(rest)})`;
}

/**
 * Query of the first row of each group. An anti-join, unlike a window over each group, lets Postgres start at an index whether the
 * reader asks for some rows or joins to them, and hashes instead of sorting if it asks for all.
 */
export function selectFirst({ from, columns, groupBy, orderBy, where }: FirstRows): string {
  const [only, onlyBefore] = where ? [`${where("m")} AND `, ` AND ${where("b")}`] : ["", ""];
  return `SELECT ${columns.map((name) => `m.${name}`).join(", ")}
FROM ${from} AS m
LEFT JOIN ${from} AS b
  ON ${groupBy.map((name) => `b.${name} = m.${name}`).join(" AND ")}${onlyBefore}
    AND (${comesBefore(orderBy)})
WHERE ${only}b.${groupBy[0]} IS NULL`;
}
