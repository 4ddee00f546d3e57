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
    session.rows<LedgerHistoryRow>(sql`
    SELECT to_char(reserved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, job, budget, trim_scale(price)::text AS price, currency,
      sum(${sql.raw(billedRecords)})::bigint AS "recordsBilled", sum(records_in_doubt)::bigint AS "possiblyBilled",
      coalesce(sum(records_sent) FILTER (WHERE http_status = 200), 0)::bigint AS "recordsAnswered",
      coalesce(sum(records_matched) FILTER (WHERE http_status = 200), 0)::bigint AS "recordsMatched"
    FROM ${tableId(db.names, "api_call")}
    WHERE budget IS NOT NULL AND reserved_at >= date_trunc('day', now()) - make_interval(days => ${days - 1})
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`),
  );
}
