import { addColumns, createTable } from "../src/load/db/ddl.ts";
import { quoteIdentifier, type SchemaNames, tableText } from "../src/load/db/names.ts";
import { apiCall, priceTier } from "../src/schemas/ledger.ts";

const ADDED = ["price_tiers", "billed_per", "error_code", "error_details"];

/** Adds prices by number of records, what is billed, and the service's errors to the ledger. */
export function addPricesAndErrors(names: SchemaNames): readonly string[] {
  const columns = apiCall.columns.filter(({ name }) => ADDED.includes(name));
  return [
    addColumns(apiCall.name, columns, names),
    createTable(priceTier, names).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"),
    `CREATE INDEX IF NOT EXISTS ${quoteIdentifier("api_call_stating_plan")} ON ${tableText(names, "api_call")} (endpoint, started_at)
      WHERE error_details IS NOT NULL`,
  ];
}
