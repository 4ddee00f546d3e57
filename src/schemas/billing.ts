import { column } from "./table.ts";

/** Columns of the ledger that record what a billed record cost when its call was reserved. */
export const priceColumns = [
  column(
    "price",
    "numeric",
    "none",
    "Price of one billed record when the call was reserved; null without `prices`.",
  ),
  column("currency", "text", "none", "Currency of `price`, ISO 4217."),
];

/**
 * Records that a call of the ledger was billed, as SQL: addresses answered, matches of other lookups, the charge of an unlock.
 * Calls that may have been billed, and records without a result, are in `records_in_doubt` instead.
 */
export const billedRecords = `CASE WHEN budget IS NULL OR possibly_billed OR records_matched IS NULL THEN 0
    WHEN budget = 'validate_emails' THEN records_sent - records_in_doubt ELSE records_matched END`;
