import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import { tableText } from "../db/names.ts";
import { type BilledDay, inMonthsSince } from "../ledger/costs.ts";
import { type PeopleChanged, readPeopleChanged } from "../lookups/person-history.ts";
import { isBeating } from "../runs/fence.ts";
import type { Table } from "../../schemas/table.ts";
import { billedAtPrices } from "../../schemas/views/costs.ts";
import { coveredTables, fieldsOf } from "../../schemas/views/people.ts";

/** Limits what a look at the history may cost the warehouse. */
const LIMITS = "SET LOCAL transaction_read_only = on; SET LOCAL statement_timeout = '5s'";

/** Runs work in a transaction that can't write and whose statements end after five seconds. */
export function readBriefly<Result>(db: Db, work: (session: Session) => Promise<Result>): Promise<Result> {
  return db.transaction(async (session) => {
    await session.client.query(LIMITS);
    return work(session);
  });
}

/** Counts the people that a run changed; null if none. */
export function readChangeOfRun(db: Db, runId: string): Promise<PeopleChanged | null> {
  return readBriefly(db, (session) => readPeopleChanged(session, runId));
}

/** A job, or a shard of it, that a process holds. */
interface RunningJob {
  readonly job: string;
  readonly shard: string;
  readonly runId: string;
  readonly host: string;
  readonly pid: number;
  readonly since: string;
  readonly heartbeatAt: string;
  /** True after too long without a heartbeat: the next run takes over. */
  readonly isExpired: boolean;
  /** Null until the selection has counted them, and for jobs without an input. */
  readonly recordsDue: number | null;
  /** Records in calls of this run so far; null for shards, which the ledger doesn't distinguish. */
  readonly recordsSent: number | null;
  readonly rowsWritten: number;
  readonly requests: number;
}

/** Reads what runs now and its progress; also the end of the newest finished run, which changes when a job ends. */
export function readRunningJobs(
  db: Db,
): Promise<{ readonly jobs: readonly RunningJob[]; readonly lastEndAt: string | null }> {
  const syncRun = db.table("sync_run");
  return readBriefly(db, async (session) => {
    const jobs = await session.rows<RunningJob>(sql`
    SELECT l.job, l.shard, l.run_id AS "runId", l.host, l.pid, l.acquired_at AS since, l.heartbeat_at AS "heartbeatAt",
      NOT ${isBeating("l")} AS "isExpired", nullif(r.records_due, 0) AS "recordsDue",
      c.sent AS "recordsSent", coalesce(r.rows_written, 0) AS "rowsWritten", coalesce(r.requests, 0) AS requests
    FROM ${db.table("job_lock")} AS l
    LEFT JOIN ${syncRun} AS r ON (r.run_id, r.job, r.shard) = (l.run_id, l.job, l.shard)
    LEFT JOIN LATERAL (
      SELECT coalesce(sum(records_reserved), 0)::bigint AS sent FROM ${db.table("api_call")} AS c
      WHERE c.reserved_at >= l.acquired_at AND (c.run_id, c.job) = (l.run_id, l.job)) AS c ON l.shard = '0/1'
    WHERE l.released_at IS NULL ORDER BY l.acquired_at, l.job, l.shard`);
    const end = await session.one(
      session.query.selectFrom("ops.sync_run").select(({ fn }) => fn.max("finished_at").as("at")),
    );
    return { jobs, lastEndAt: end.at };
  });
}

/** Billed records of one job at one price on one UTC day, with the answers of its calls. */
export interface LedgerHistoryRow extends Omit<BilledDay, "endpoint" | "per"> {
  /** Records in answered calls. */
  readonly recordsAnswered: number;
  readonly recordsMatched: number;
}

const ifAnswered = (records: string) => `CASE WHEN http_status = 200 THEN ${records} END`;

/** Reads the billable calls of the last UTC days, today included, oldest first. */
export function readLedgerHistory(db: Db, days: number): Promise<readonly LedgerHistoryRow[]> {
  const since = `date_trunc('day', now() AT TIME ZONE 'UTC') - make_interval(days => ${days - 1})`;
  const rows = billedAtPrices("postgres", (name) => tableText(db.names, name), {
    where: inMonthsSince(since),
    sums: { answered: ifAnswered("records_sent"), matched: ifAnswered("records_matched") },
  });
  return readBriefly(db, (session) =>
    // Formatted after grouping: the ledger has a row per call.
    session.rows<LedgerHistoryRow>(sql`
    SELECT to_char(day, 'YYYY-MM-DD') AS day, job, budget, trim_scale(price)::text AS price, currency,
      sum(records_billed)::bigint AS "recordsBilled", sum(possibly_billed)::bigint AS "possiblyBilled",
      coalesce(sum(answered), 0)::bigint AS "recordsAnswered", coalesce(sum(matched), 0)::bigint AS "recordsMatched"
    FROM (${sql.raw(rows)}) AS b WHERE day >= ${sql.raw(since)}
    GROUP BY b.day, job, budget, price, currency ORDER BY b.day, 2, 3, 4`),
  );
}

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
  const since = sql`(now()::date - ${days - 1}::integer)`;
  return readBriefly(db, async (session) => {
    const bucket = db.table("endpoint_usage_bucket");
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
    FROM ${db.table("person_search_usage_daily")} WHERE period_start >= ${since}
    GROUP BY 1 HAVING sum(records_delivered) + sum(searches_created) > 0 ORDER BY 1`);
    return { endpoints, searches };
  });
}

/** Last reading of a segment on one UTC day, with the changes of all readings of the day. */
export interface SegmentDay {
  readonly day: string;
  readonly segmentId: string;
  /** Name in the configuration; null for none. */
  readonly name: string | null;
  readonly knownMembers: number;
  readonly added: number;
  readonly removed: number;
  readonly removalsPending: number;
}

/** Reads the sizes of all segments in the last UTC days, oldest first. */
export function readSegmentHistory(db: Db, days: number): Promise<readonly SegmentDay[]> {
  return readBriefly(db, (session) =>
    session.rows<SegmentDay>(sql`
    SELECT DISTINCT ON (segment_id, day) day, segment_id AS "segmentId", name, known_members AS "knownMembers",
      (sum(added) OVER one_day)::bigint AS added, (sum(removed) OVER one_day)::bigint AS removed,
      removals_pending AS "removalsPending"
    FROM (
      SELECT observed_at::date AS day, y.*, s.name FROM ${session.table("segment_sync")} AS y
      LEFT JOIN ${session.table("segment")} AS s USING (segment_id)
      WHERE known_members IS NOT NULL AND observed_at >= now()::date - ${days - 1}::integer) AS r
    WINDOW one_day AS (PARTITION BY segment_id, day)
    ORDER BY segment_id, day, observed_at DESC, run_id DESC`),
  );
}

/** Counts deaths by week (Monday, UTC), for the current week and those before it, oldest first; weeks without any are absent. */
export function readDeathWeeks(db: Db, weeks: number) {
  return readBriefly(db, (session) =>
    session.rows<{ readonly week: string; readonly deaths: number }>(sql`
    SELECT date_trunc('week', first_observed_at)::date AS week, count(*) AS deaths
    FROM ${session.table("death_signal")}
    WHERE first_observed_at >= date_trunc('week', now()) - make_interval(weeks => ${weeks - 1})
    GROUP BY 1 ORDER BY 1`),
  );
}

/** Known values of the fields of one table. */
export interface TableCoverage {
  readonly table: string;
  /** Estimated for a large table; null until its statistics are collected. */
  readonly rows: number | null;
  /** True for figures from the server's statistics, which come from a sample of rows. */
  readonly isEstimated: boolean;
  /** Rows with a value, by column. */
  readonly fields: readonly { readonly column: string; readonly rowsKnown: number }[];
}

/** Larger tables aren't counted: their figures come from the server's statistics. */
const COUNTED_BYTES = 16 * 1024 ** 2;

/** Reads how many rows have a value, for each field of people; the time doesn't grow with the tables. */
export function readFieldCoverage(db: Db): Promise<readonly TableCoverage[]> {
  return readBriefly(db, async (session) => {
    const sizes = await session.rows<{ table: string; bytes: number }>(sql`
    SELECT relname AS table, pg_relation_size(c.oid) AS bytes FROM pg_catalog.pg_class AS c
    WHERE relnamespace = ${session.names.data}::regnamespace AND relname = ANY(${coveredTables.map(({ name }) => name)}::text[])`);
    const found: TableCoverage[] = [];
    for (const table of coveredTables) {
      const bytes = sizes.find((size) => size.table === table.name)?.bytes ?? 0;
      const isEstimated = bytes > COUNTED_BYTES;
      const known = await (isEstimated ? estimateFields : countFields)(session, table);
      const fields = fieldsOf(table).flatMap(({ name }) => known.filter(({ column }) => column === name));
      found.push({ table: table.name, rows: known[0]?.rows ?? null, isEstimated, fields });
    }
    return found;
  });
}

interface KnownValues {
  readonly rows: number;
  readonly column: string;
  readonly rowsKnown: number;
}

function countFields(session: Session, table: Table): Promise<KnownValues[]> {
  return session.rows(sql`
    SELECT rows, column_name AS column, rows_known AS "rowsKnown" FROM ${session.table("field_coverage")}
    WHERE table_name = ${table.name}`);
}

function estimateFields(session: Session, table: Table): Promise<KnownValues[]> {
  return session.rows(sql`
    SELECT c.reltuples::bigint AS rows, s.attname AS column, round(c.reltuples * (1 - s.null_frac))::bigint AS "rowsKnown"
    FROM pg_catalog.pg_stats AS s JOIN pg_catalog.pg_class AS c
      ON c.relname = s.tablename AND c.relnamespace = s.schemaname::regnamespace
    WHERE s.schemaname = ${session.names.data} AND s.tablename = ${table.name} AND NOT s.inherited AND c.reltuples >= 0`);
}

/** Reads the last seen fields of the service's answers that differ from their declaration. */
export function readSchemaDrift(db: Db, limit: number) {
  return readBriefly(db, (session) =>
    session.rows(
      session.query
        .selectFrom("ops.schema_drift")
        .select(["endpoint", "path", "kind", "observed_type as observedType", "occurrences"])
        .select(["first_seen_at as firstSeenAt", "last_seen_at as lastSeenAt"])
        .orderBy(sql`last_seen_at DESC, endpoint, path, kind`)
        .limit(limit),
    ),
  );
}
