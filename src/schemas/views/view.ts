import type { Fields, RowOf } from "../field.ts";
import { type Column, columnsOf, type Declared, type PublishedSchema, withJoins } from "../table.ts";

export type Dialect = "postgres" | "bigquery" | "duckdb" | "spark";

/** One declared view, with the same name, columns and meaning in every engine. */
export interface View {
  readonly name: string;
  readonly schema: PublishedSchema;
  readonly doc: string;
  readonly columns: readonly Column[];
  /** Tables and views that it reads; created only if all of them exist. */
  readonly reads: readonly string[];
  /** Builds the SELECT. `ref` returns the qualified, quoted name of a table or view in the engine. */
  readonly select: (dialect: Dialect, ref: (name: string) => string) => string;
}

interface ViewOptions<S extends PublishedSchema, F extends Fields> extends Omit<View, "name" | "columns"> {
  readonly schema: S;
  readonly columns: F;
}

/** Declares a view; adds joins to descriptions. */
export function view<const Name extends string, S extends PublishedSchema, F extends Fields>(
  name: Name,
  options: ViewOptions<S, F>,
): View & Declared<Name, S, RowOf<F>> {
  const columns = withJoins({ name, schema: options.schema, columns: columnsOf(options.columns) });
  return { ...options, name, columns };
}

/** Name in the quotes of the engine. */
export function quoted(dialect: Dialect, name: string): string {
  return dialect === "bigquery" || dialect === "spark" ? `\`${name}\`` : `"${name}"`;
}

/** UTC day of an instant. */
export function utcDay(dialect: Dialect, instant: string): string {
  if (dialect === "bigquery") return `date(${instant}, 'UTC')`;
  // In Spark, casts use the time zone of the session.
  if (dialect === "spark") return `CAST(to_utc_timestamp(${instant}, current_timezone()) AS date)`;
  return `CAST(${instant} AT TIME ZONE 'UTC' AS date)`;
}

/** Path of an endpoint without the method and the leading slash. */
export const pathOf = (dialect: Dialect) =>
  dialect === "bigquery"
    ? "regexp_replace(endpoint, r'^[A-Z]+ /?', '')"
    : "regexp_replace(endpoint, '^[A-Z]+ /?', '')";

/** A sum of integers as an integer. */
export const whole = (dialect: Dialect, sum: string) =>
  dialect === "bigquery" ? sum : `CAST(${sum} AS bigint)`;

interface FirstRows {
  /** Table, or subquery in parentheses. */
  readonly from: string;
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
