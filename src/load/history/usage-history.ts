import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import { readBriefly } from "./read-briefly.ts";

/** Usage of one endpoint on one day, as the service reports it. */
interface EndpointDay {
  /** `2026-11-21`, in the zone of the newest reading. */
  readonly day: string;
  /** `v2/enrich`. */
  readonly endpoint: string;
  readonly requests: number;
  readonly records: number;
}

/** Person searches of one UTC day, as the service reports them. */
interface SearchDay {
  readonly day: string;
  readonly recordsDelivered: number;
  readonly searches: number;
}

/** Reads the reported usage of the last days, without days of zeros, oldest first. */
export function readUsageHistory(
  db: Db,
  days: number,
): Promise<{ readonly endpoints: readonly EndpointDay[]; readonly searches: readonly SearchDay[] }> {
  const { names } = db;
  const since = sql`(now()::date - ${days - 1}::integer)`;
  return readBriefly(db, async (session) => {
    const bucket = tableId(names, "endpoint_usage_bucket");
    // Buckets of other sizes and zones count the same calls again.
    const endpoints = await session.rows<EndpointDay>(sql`
    SELECT bucket_start_local::date AS day, endpoint, sum(total_requests)::bigint AS requests,
      sum(num_input_records)::bigint AS records
    FROM ${bucket} JOIN (
      SELECT bucketing_size AS size, timezone AS zone FROM ${bucket} WHERE bucketing_size IN ('hour', 'day')
      GROUP BY 1, 2 ORDER BY max(observed_at) DESC, 1, 2 LIMIT 1) AS newest ON (bucketing_size, timezone) = (size, zone)
    WHERE bucket_start_local >= ${since}
    GROUP BY 1, 2 HAVING sum(total_requests) > 0 ORDER BY 1, 2`);
    const searches = await session.rows<SearchDay>(sql`
    SELECT period_start AS day, sum(records_delivered)::bigint AS "recordsDelivered",
      sum(searches_created)::bigint AS searches
    FROM ${tableId(names, "person_search_usage_daily")} WHERE period_start >= ${since}
    GROUP BY 1 HAVING sum(records_delivered) + sum(searches_created) > 0 ORDER BY 1`);
    return { endpoints, searches };
  });
}
