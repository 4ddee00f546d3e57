import { type RawBuilder, sql } from "kysely";
import type { Amount } from "../../money.ts";
import { availableOf } from "../../schemas/error-body.ts";
import { billedRecords, isBillable } from "../../schemas/ledger.ts";
import { billedAtPrices, type LedgerPart } from "../../schemas/views/costs.ts";
import { pathOf } from "../../schemas/views/view.ts";
import type { Db } from "../db/db.ts";
import { quoteLiteral, type SchemaNames, tableText } from "../db/names.ts";

/** Records of one job on one UTC day, from the ledger and the rejects. */
export interface LedgerDay {
  /** `2026-11-21`. */
  readonly day: string;
  readonly job: string;
  /** Attempts. */
  readonly calls: number;
  /** Records in calls that were answered or may have been billed. Budgets count them. */
  readonly records_sent: number;
  readonly records_matched: number;
  /** Rows rejected, before or after sending. */
  readonly records_rejected: number;
  /** Records that may have been billed without a result: calls in flight or without an answer, and records that answers omit. */
  readonly possibly_billed: number;
  /** Sent records that were also in an earlier call that may have been billed. */
  readonly possibly_billed_twice: number;
}

const dayOf = (column: string) => sql`to_char(${sql.id(column)} AT TIME ZONE 'UTC', 'YYYY-MM-DD')`;

/** Records sent and rejected per job on each of the last UTC days, newest first. */
export async function readLedgerDays(db: Db, days: number): Promise<readonly LedgerDay[]> {
  const since = sql`date_trunc('day', now()) - make_interval(days => ${days - 1})`;
  return db.rows<LedgerDay>(sql`
    WITH called AS (
      SELECT ${dayOf("reserved_at")} AS day, job, count(*) AS calls, sum(records_reserved)::bigint AS sent,
        coalesce(sum(records_matched), 0)::bigint AS matched,
        coalesce(sum(records_in_doubt) FILTER (WHERE ${sql.raw(isBillable)}), 0)::bigint AS in_doubt,
        sum(records_possibly_billed_twice)::bigint AS twice
      FROM ${db.table("api_call")} WHERE reserved_at >= ${since} GROUP BY 1, 2),
    rejected AS (
      SELECT ${dayOf("created_at")} AS day, job, count(*) AS rejected
      FROM ${db.table("reject")} WHERE created_at >= ${since} GROUP BY 1, 2)
    SELECT day, job, coalesce(calls, 0) AS calls, coalesce(sent, 0) AS records_sent, coalesce(matched, 0) AS records_matched,
      coalesce(rejected, 0) AS records_rejected, coalesce(in_doubt, 0) AS possibly_billed, coalesce(twice, 0) AS possibly_billed_twice
    FROM called FULL JOIN rejected USING (day, job) ORDER BY day DESC, job`);
}

/** Billed records of one job and run at one price on one UTC day. */
export interface BilledDay {
  /** `2026-11-21`. */
  readonly day: string;
  readonly job: string;
  /** Path without its leading slash. */
  readonly endpoint: string;
  /** Type of the job, or `unlock`. */
  readonly budget: string;
  /** Price of one record at its place in the month; null without one. */
  readonly price: Amount | null;
  readonly currency: string | null;
  /** As `prices` stated it; null if it didn't. */
  readonly per: "record" | "match" | null;
  readonly recordsBilled: number;
  /** Further records that may have been billed. */
  readonly possiblyBilled: number;
}

/** Reads what was billed from a UTC day (`2026-11-01`) up to another one, exclusive. */
export async function readBilledSince(
  db: Db,
  day: string,
  before = "infinity",
): Promise<readonly BilledDay[]> {
  const [from, to] = [quoteLiteral(day), quoteLiteral(before)];
  const rows = readBilled(db.names, {
    where: `${inMonthsSince(`${from}::timestamp`)} AND reserved_at < ${to}::timestamp AT TIME ZONE 'UTC'`,
  });
  return db.rows<BilledDay>(sql`${rows} HAVING day >= ${day}::date ORDER BY 1 DESC, 2, 3, 4, 5`);
}

/** True if the ledger has a billable call from before a UTC day. */
export async function hasCallsBefore(db: Db, day: string): Promise<boolean> {
  const [found] = await db.rows(sql`
    SELECT FROM ${db.table("api_call")} WHERE ${sql.raw(isBillable)} AND reserved_at < ${day}::timestamp AT TIME ZONE 'UTC' LIMIT 1`);
  return found !== undefined;
}

/** Reads what was billed under a run ID, in all shards. A job that was started again counts from its last start. */
export async function readBilledInRun(db: Db, runId: string): Promise<readonly BilledDay[]> {
  const [calls, runs] = [tableText(db.names, "api_call"), tableText(db.names, "sync_run")];
  const run = quoteLiteral(runId);
  const first = `(SELECT min(reserved_at) AT TIME ZONE 'UTC' FROM ${calls} WHERE run_id = ${run})`;
  const start = `SELECT min(r.started_at) FROM ${runs} AS r WHERE (r.run_id, r.job) = (api_call.run_id, api_call.job)`;
  const rows = readBilled(db.names, {
    where: inMonthsSince(first),
    by: { is_of_run: `CASE WHEN run_id = ${run} THEN reserved_at >= (${start}) END` },
  });
  return db.rows<BilledDay>(sql`${rows}, is_of_run HAVING is_of_run ORDER BY 1 DESC, 2, 3, 4, 5`);
}

/** Condition on calls of the UTC months since a timestamp. */
export const inMonthsSince = (utc: string) => `reserved_at >= date_trunc('month', ${utc}) AT TIME ZONE 'UTC'`;

function readBilled(names: SchemaNames, part: LedgerPart): RawBuilder<unknown> {
  const by = { path: pathOf("postgres"), billed_per: "billed_per", ...part.by };
  const rows = billedAtPrices("postgres", (name) => tableText(names, name), { ...part, by });
  return sql`
    SELECT to_char(day, 'YYYY-MM-DD') AS day, job, path AS endpoint, budget, trim_scale(price)::text AS price, currency, billed_per AS per,
      sum(records_billed)::bigint AS "recordsBilled", sum(possibly_billed)::bigint AS "possiblyBilled"
    FROM (${sql.raw(rows)}) AS b GROUP BY b.day, job, path, budget, price, currency, billed_per`;
}

/** Records of a job in a run that may have been billed without a response. */
interface PossiblyBilled {
  readonly run_id: string;
  readonly job: string;
  readonly records: number;
}

/** Reads what may have been billed in runs; jobs without such records are absent. */
export function readPossiblyBilled(db: Db, runIds: readonly string[]): Promise<readonly PossiblyBilled[]> {
  if (runIds.length === 0) return Promise.resolve([]);
  return db.rows<PossiblyBilled>(sql`
    SELECT run_id, job, sum(records_in_doubt)::bigint AS records FROM ${db.table("api_call")}
    WHERE records_in_doubt > 0 AND ${sql.raw(isBillable)} AND run_id = ANY(${[...runIds]}::text[]) GROUP BY 1, 2`);
}

/** Sums billed records by job. Jobs without billed calls are absent. */
export function billedByJob(days: readonly BilledDay[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { job, recordsBilled } of days) sums.set(job, (sums.get(job) ?? 0) + recordsBilled);
  return sums;
}

/** Rest of the plan as the last 402 of an endpoint stated it, and what was billed there since. */
interface StatedPlan {
  /** Method and path. */
  readonly endpoint: string;
  readonly at: string;
  readonly figures: Readonly<Record<string, number>>;
  readonly available: number;
  /** Records billed since. */
  readonly least: number;
  /** The same with those that may have been billed. */
  readonly most: number;
}

export async function readStatedPlans(db: Db): Promise<readonly StatedPlan[]> {
  const calls = db.table("api_call");
  const rows = await db.rows<Omit<StatedPlan, "available">>(sql`
    SELECT s.endpoint, s.settled_at AS at, s.error_details AS figures, c.least, c.least + c.in_doubt AS most
    FROM (
      SELECT DISTINCT ON (endpoint) endpoint, settled_at, error_details FROM ${calls}
      WHERE error_details IS NOT NULL ORDER BY endpoint, started_at DESC) AS s
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(${sql.raw(billedRecords)}), 0)::bigint AS least, coalesce(sum(records_in_doubt), 0)::bigint AS in_doubt
      FROM ${calls} AS c
      WHERE c.endpoint = s.endpoint AND ${sql.raw(isBillable)} AND coalesce(c.settled_at, c.reserved_at) > s.settled_at) AS c
    ORDER BY 1`);
  return rows.flatMap((row) => {
    const available = availableOf(row.figures);
    return available === null ? [] : [{ ...row, available }];
  });
}
