import { sql } from "kysely";
import type { LedgerDay } from "../warehouse.ts";
import { tableId } from "./names.ts";
import type { Session } from "./session.ts";

const dayOf = (column: string) => sql`FORMAT_TIMESTAMP('%Y-%m-%d', ${sql.id(column)})`;

/** What was sent and rejected on each of the last days (UTC) by each job, newest first. */
export async function readLedgerDays(session: Session, days: number): Promise<readonly LedgerDay[]> {
  const { names } = session;
  const since = sql`TIMESTAMP_SUB(TIMESTAMP_TRUNC(CURRENT_TIMESTAMP(), DAY), INTERVAL ${days - 1} DAY)`;
  return session.rows<LedgerDay>(sql`
    WITH called AS (
      SELECT ${dayOf("reserved_at")} AS day, job, COUNT(*) AS calls, SUM(records_reserved) AS sent,
        IFNULL(SUM(records_matched), 0) AS matched, SUM(IF(possibly_billed, records_reserved, 0)) AS in_doubt,
        SUM(records_possibly_billed_twice) AS twice
      FROM ${tableId(names, "ops", "api_call")}
      WHERE reserved_at >= ${since} AND started_at >= TIMESTAMP_SUB(${since}, INTERVAL 2 DAY) GROUP BY 1, 2),
    rejected AS (
      SELECT ${dayOf("created_at")} AS day, job, COUNT(*) AS rejected
      FROM ${tableId(names, "data", "reject")} WHERE created_at >= ${since} GROUP BY 1, 2)
    SELECT day, job, IFNULL(calls, 0) AS calls, IFNULL(sent, 0) AS recordsSent, IFNULL(matched, 0) AS recordsMatched,
      IFNULL(rejected, 0) AS recordsRejected, IFNULL(in_doubt, 0) AS possiblyBilled, IFNULL(twice, 0) AS possiblyBilledTwice
    FROM called FULL JOIN rejected USING (day, job) ORDER BY day DESC, job`);
}
