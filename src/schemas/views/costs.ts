import { billedRecords, isBillable } from "../ledger.ts";
import { date, integer, numeric, text } from "../field.ts";
import { type Dialect, pathOf, utcDay, view, whole } from "./view.ts";

export interface LedgerPart {
  /** Condition on the calls. Prices by tiers are right only for months of which it holds all. */
  readonly where: string;
  /** Further columns to group calls by, as expressions by name. */
  readonly by?: Readonly<Record<string, string>>;
  /** Further columns to sum over calls, as expressions by name. */
  readonly sums?: Readonly<Record<string, string>>;
}

const named = (columns: Readonly<Record<string, string>>) =>
  Object.entries(columns).map(([name, expression]) => `${expression} AS ${name}`);

/**
 * Query of billed records with the price that each has in its UTC month: one row per day, run, job, endpoint and price. Certain records count first,
 * in the order of their runs; those in doubt follow, so that their amounts are what they would add to the month's invoice.
 */
export function billedAtPrices(
  dialect: Dialect,
  ref: (name: string) => string,
  { where, by = {}, sums = {} }: LedgerPart,
): string {
  const keys = [
    "budget",
    "day",
    "run_id",
    "job",
    "endpoint",
    "price",
    "currency",
    "price_tiers",
    ...Object.keys(by),
  ];
  const sumNames = ["records_sent", ...Object.keys(sums)];
  const records = "CASE in_doubt WHEN 1 THEN possible ELSE certain END";
  return `SELECT budget, day, run_id, job, endpoint, ${[...Object.keys(by), "currency"].join(", ")},
  ${sumNames.map((name) => `CASE WHEN is_first THEN ${name} ELSE 0 END AS ${name}`).join(", ")},
  CASE in_doubt WHEN 0 THEN records ELSE 0 END AS records_billed, CASE in_doubt WHEN 1 THEN records ELSE 0 END AS possibly_billed, price
FROM (
  SELECT p.*, coalesce(t.amount, p.flat_price) AS price, in_doubt = 0 AND coalesce(t.records_from, 0) <= place AS is_first,
    least(place + wanted, coalesce(t.records_to, place + wanted)) - greatest(place, coalesce(t.records_from, 0)) AS records
  FROM (
    SELECT ${keys.map((name) => (name === "price" ? "price AS flat_price" : name)).join(", ")}, ${sumNames.join(", ")}, in_doubt,
      ${records} AS wanted,
      ${whole(
        dialect,
        `sum(${records}) OVER (PARTITION BY budget, extract(YEAR FROM day), extract(MONTH FROM day)
        ORDER BY in_doubt, day, first_at, ${keys.slice(2).join(", ")} ROWS UNBOUNDED PRECEDING)`,
      )} - ${records} AS place
    FROM (
      SELECT ${keys.join(", ")}, min(reserved_at) AS first_at, ${whole(dialect, "sum(records_reserved)")} AS records_sent,
        ${[...Object.keys(sums).map((name) => `${whole(dialect, `sum(${name})`)} AS ${name}`), ""].join(", ")}${whole(dialect, "sum(billed)")} AS certain,
        ${whole(dialect, "sum(records_in_doubt)")} AS possible
      FROM (
        SELECT budget, ${utcDay(dialect, "reserved_at")} AS day, run_id, job, endpoint, price, currency, price_tiers, reserved_at, records_reserved,
          records_in_doubt, ${[...named(by), ...named(sums), ""].join(", ")}${billedRecords} AS billed
        FROM ${ref("api_call")} WHERE ${isBillable} AND ${where}) AS c
      GROUP BY ${keys.join(", ")}) AS g
    CROSS JOIN (SELECT 0 AS in_doubt UNION ALL SELECT 1 AS in_doubt) AS d
    WHERE in_doubt = 0 OR possible > 0) AS p
  LEFT JOIN ${ref("price_tier")} AS t
    ON t.price_tiers = p.price_tiers AND coalesce(t.records_to, place + 1) > place
      AND t.records_from < place + greatest(wanted, 1)) AS priced`;
}

/** Exact product of a number of records and a price. */
function product(dialect: Dialect, records: string, price: string): string {
  // DuckDB refuses products of more than 38 digits, and Spark rounds them.
  const exact = `CAST(${records} AS decimal(18, 0)) * CAST(${price} AS decimal(18, 6))`;
  if (dialect === "spark") return `CAST(${exact} AS decimal(38, 20))`;
  return dialect === "duckdb" ? exact : `${records} * ${price}`;
}

export const costDaily = view("cost_daily", {
  schema: "ops",
  doc: "Billed records and their cost by UTC day, endpoint, job and price; one row for each price of the day.",
  columns: {
    day: date("none", "UTC day on which the records were reserved; budgets count them on this day."),
    endpoint: text("none", "Path without its leading slash, as in `usage_reconciliation`."),
    job: text("none", "The job."),
    records_sent: integer(
      "none",
      "Records in calls that had a response or may have been billed; budgets count them.",
    ),
    records_billed: integer(
      "none",
      "Records billed, by the rule in `prices`: by default the processed addresses, the matches of other jobs, and the charges of unlocks.",
    ),
    possibly_billed: integer(
      "none",
      "Further records that may have been billed: calls without a response, records without a result.",
    ),
    price: numeric(
      "none",
      "Price of one billed record at that point of the month, 0 within an allowance; null without a price in `prices`.",
    ),
    amount: numeric("none", "`records_billed` at this price, exact; null without a price."),
    currency: text("none", "Currency of the price, ISO 4217."),
    possibly_billed_amount: numeric(
      "none",
      "What `possibly_billed` would add to the month's invoice, exact; null without a price.",
    ),
  },
  reads: ["api_call", "price_tier"],
  select: (dialect, ref) => {
    const sum = (name: string) => `${whole(dialect, `sum(${name})`)} AS ${name}`;
    return `SELECT day, endpoint, job, records_sent, records_billed, possibly_billed, price,
  ${product(dialect, "records_billed", "price")} AS amount, currency, ${product(dialect, "possibly_billed", "price")} AS possibly_billed_amount
FROM (
  SELECT day, path AS endpoint, job, ${["records_sent", "records_billed", "possibly_billed"].map(sum).join(", ")}, price, currency
  FROM (${billedAtPrices(dialect, ref, { where: "true", by: { path: pathOf(dialect) } })}) AS b
  GROUP BY day, path, job, price, currency) AS d`;
  },
});
