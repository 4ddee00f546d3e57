import { sql } from "kysely";
import { billedRecords } from "../../schemas/billing.ts";
import type { Db } from "../db/db.ts";
import type { BilledDay } from "../ledger/costs.ts";
import { tableId } from "../db/names.ts";
import { readBriefly } from "./read-briefly.ts";

/** Calls of one job at one price on one UTC day. */
export interface LedgerHistoryRow extends BilledDay {
  /** Records in answered calls. */
  readonly recordsAnswered: number;
  readonly recordsMatched: number;
}

/** Reads the billable calls of the last UTC days, today included, oldest first. */
export function readLedgerHistory(db: Db, days: number): Promise<readonly LedgerHistoryRow[]> {
  return readBriefly(db, (session) =>
    // Formatted after grouping: the ledger has a row per call.
    session.rows<LedgerHistoryRow>(sql`
    SELECT to_char(day, 'YYYY-MM-DD') AS day, job, budget, trim_scale(price)::text AS price, currency,
      billed::bigint AS "recordsBilled", in_doubt::bigint AS "possiblyBilled",
      coalesce(answered, 0)::bigint AS "recordsAnswered", coalesce(matched, 0)::bigint AS "recordsMatched"
    FROM (
      SELECT (reserved_at AT TIME ZONE 'UTC')::date AS day, job, budget, price, currency,
        sum(${sql.raw(billedRecords)}) AS billed, sum(records_in_doubt) AS in_doubt,
        sum(records_sent) FILTER (WHERE http_status = 200) AS answered,
        sum(records_matched) FILTER (WHERE http_status = 200) AS matched
      FROM ${tableId(db.names, "api_call")}
      WHERE budget IS NOT NULL AND reserved_at >= date_trunc('day', now()) - make_interval(days => ${days - 1})
      GROUP BY 1, 2, 3, 4, 5) AS d
    ORDER BY 1, 2, 3, 4`),
  );
}
