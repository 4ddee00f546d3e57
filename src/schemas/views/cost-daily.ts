import { billedRecords } from "../billing.ts";
import { column } from "../table.ts";
import { pathOf, utcDay, whole } from "./dialect.ts";
import type { Dialect, View } from "./view.ts";

/** Exact product of a number of records and a price. */
const product = (dialect: Dialect, records: string, price: string) =>
  // DuckDB refuses products of more than 38 digits.
  dialect === "duckdb"
    ? `CAST(${records} AS decimal(18, 0)) * CAST(${price} AS decimal(18, 6))`
    : `${records} * ${price}`;

/** Cost of the ledger's calls. */
export const costDaily: View = {
  name: "cost_daily",
  schema: "ops",
  doc: "Billed records and their cost by UTC day, endpoint, job and price; a day on which a price changed has a row for each price.",
  columns: [
    column(
      "day",
      "date",
      "none",
      "UTC day on which the records were reserved; budgets count them on this day.",
    ),
    column("endpoint", "text", "none", "Path without its leading slash, as in `usage_reconciliation`."),
    column("job", "text", "none", "The job."),
    column(
      "records_sent",
      "integer",
      "none",
      "Records in calls that were answered or may have been billed; budgets count them.",
    ),
    column(
      "records_billed",
      "integer",
      "none",
      "Records billed: addresses answered, matches of other jobs, charges of unlocks.",
    ),
    column(
      "possibly_billed",
      "integer",
      "none",
      "Further records that may have been billed: calls without an answer, records without a result.",
    ),
    column("price", "numeric", "none", "Price of one billed record; null if `prices` had none."),
    column("amount", "numeric", "none", "`records_billed` at this price, exact; null without a price."),
    column("currency", "text", "none", "Currency of the price, ISO 4217."),
  ],
  reads: ["api_call"],
  select: (dialect, ref) => `SELECT day, endpoint, job, records_sent, records_billed, possibly_billed, price,
  ${product(dialect, "records_billed", "price")} AS amount, currency
FROM (
  SELECT day, endpoint, job, ${whole(dialect, "sum(records_reserved)")} AS records_sent,
    ${whole(dialect, "sum(billed)")} AS records_billed, ${whole(dialect, "sum(records_in_doubt)")} AS possibly_billed,
    price, currency
  FROM (
    SELECT ${utcDay(dialect, "reserved_at")} AS day, ${pathOf(dialect)} AS endpoint, job, records_reserved, records_in_doubt,
    ${billedRecords} AS billed, price, currency
    FROM ${ref("api_call")} WHERE budget IS NOT NULL) AS c
  GROUP BY day, endpoint, job, price, currency) AS d`,
};
