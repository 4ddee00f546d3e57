import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import { readBriefly } from "./queries.ts";
import { derivedNames } from "../../schemas/derive.ts";
import { personDerivations } from "../../schemas/person.ts";
import { coveredTables, fieldsOf } from "../../schemas/views/people.ts";

/** Run of a lookup job whose answers are measured. */
interface MeasuredRun {
  readonly runId: string;
  readonly job: string;
  readonly shard: string;
  /** Name of its input. */
  readonly source: string;
}

/** Number of a run's records or people that have something, and of all of them. */
export interface Share {
  readonly known: number;
  readonly of: number;
}

/** By measure: `new_rows`, `all_rows`, TABLE, TABLE.COLUMN. */
export type Shares = Readonly<Record<string, Share>>;

/** Answers `a` of the job's run; other jobs and shards with equal requests may have received them at the same time. */
function answersOf({ session, run }: { readonly session: Session; readonly run: MeasuredRun }) {
  return sql`FROM ${session.table("sync_run")} AS r
    JOIN ${session.table("lookup_job")} AS j ON j.job = r.job AND j.source = ${run.source}
    JOIN ${session.table("lookup_answer")} AS a ON a.kind = j.kind AND a.outcome <> 'rejected'
      AND a.answered_at >= r.started_at AND a.answered_at <= r.finished_at
    WHERE r.run_id = ${run.runId} AND r.job = ${run.job} AND r.shard = ${run.shard}`;
}

/**
 * Measures matches among contents that had no answer before this run, and among all rows of the input. Records sent again are left
 * out of the former: in a night that retries unmatched ones, few match.
 */
export function measureMatches(db: Db, run: MeasuredRun): Promise<Shares> {
  return readBriefly(db, async (session) => {
    const [fresh] = await session.rows<Share>(sql`
      SELECT count(*) FILTER (WHERE a.outcome = 'matched') AS known, count(*) AS of ${answersOf({ session, run })} AND a.is_first`);
    const [all] = await session.rows<Share>(sql`
      SELECT matched AS known, answered AS of FROM ${session.table("input_coverage")}
      WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard} AND source = ${run.source}`);
    return { ...(fresh ? { new_rows: fresh } : {}), ...(all ? { all_rows: all } : {}) };
  });
}

/** Largest number of people whose fields are counted, so that the time doesn't grow with the run. */
const SAMPLE = 10_000;

/**
 * Measures how many of the people that a run received have an item of each list, and how many of their rows have each field. Takes a
 * sample by the hash of the record, which is random.
 */
export function measureFields(db: Db, run: MeasuredRun): Promise<Shares> {
  return readBriefly(db, async (session) => {
    const pids = await session.pluck<string>(sql`
      SELECT DISTINCT service_pid FROM (
        SELECT a.service_pid ${answersOf({ session, run })} AND a.outcome = 'matched' ORDER BY a.content LIMIT ${SAMPLE}) AS s`);
    const shares: Record<string, Share> = {};
    if (pids.length === 0) return shares;
    for (const table of coveredTables) {
      const derived = derivedNames(personDerivations.get(table.name) ?? []);
      const fields = fieldsOf(table).filter(({ name }) => !derived.includes(name));
      const counts = fields.map(({ name, type }) =>
        type === "text[]"
          ? sql`count(*) FILTER (WHERE cardinality(${sql.id(name)}) > 0) AS ${sql.id(name)}`
          : sql`count(${sql.id(name)}) AS ${sql.id(name)}`,
      );
      const found = await session.one<Record<string, number>>(sql`
        SELECT count(*) AS " rows", count(DISTINCT service_pid) AS " people", ${sql.join(counts)}
        FROM ${session.table(table.name)} WHERE service_pid = ANY(${[...pids]}::text[])`);
      const { " rows": rows = 0, " people": people = 0, ...known } = found;
      if (table.key.length > 1) shares[table.name] = { known: people, of: pids.length };
      for (const [name, n] of Object.entries(known)) shares[`${table.name}.${name}`] = { known: n, of: rows };
    }
    return shares;
  });
}

/** Earlier runs whose shares are kept. */
const KEPT = 20;

/** Stores the shares of a run; returns those of earlier runs of the same input and kind of answers, newest first. */
export function exchangeShares(db: Db, run: MeasuredRun, shares: Shares): Promise<readonly Shares[]> {
  const { job, shard, runId } = run;
  return db.transaction(async (session) => {
    const table = session.table("run_share");
    await session.change(sql`
      INSERT INTO ${table} AS t (job, shard, run_id, basis, measured_at, shares, _synced_at)
      SELECT ${job}, ${shard}, ${runId}, j.source || ' ' || j.kind, now(), ${JSON.stringify(shares)}::jsonb, now()
      FROM ${session.table("lookup_job")} AS j WHERE j.job = ${job} AND j.source = ${run.source}
      ON CONFLICT (job, shard, run_id) DO UPDATE SET basis = excluded.basis, measured_at = now(),
        shares = t.shares || excluded.shares, _synced_at = now()`);
    await session.change(sql`
      DELETE FROM ${table} WHERE job = ${job} AND shard = ${shard} AND run_id NOT IN (
        SELECT run_id FROM ${table} WHERE job = ${job} AND shard = ${shard} ORDER BY measured_at DESC LIMIT ${KEPT + 1})`);
    return session.pluck<Shares>(sql`
      SELECT e.shares FROM ${table} AS e JOIN ${table} AS t ON t.job = e.job AND t.shard = e.shard AND t.basis = e.basis
      WHERE e.job = ${job} AND e.shard = ${shard} AND t.run_id = ${runId} AND e.run_id <> ${runId}
      ORDER BY e.measured_at DESC`);
  });
}

const instant = sql.raw(`'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'`);

/** Time of the newest death signal that was known before a run read the segments; `-infinity` for none. */
export function lastSignalBefore(
  db: Db,
  { runId, jobs }: { readonly runId: string; readonly jobs: readonly string[] },
): Promise<string> {
  return readBriefly(db, async (session) => {
    const [at = null] = await session.pluck<string | null>(sql`
      SELECT to_char(max(first_seen_at) AT TIME ZONE 'UTC', ${instant}) FROM ${session.table("segment_death_signal")}
      WHERE first_seen_at NOT IN (
        SELECT (cursor ->> 'checked_at')::timestamptz FROM ${session.table("checkpoint")}
        WHERE job = ANY(${[...jobs]}::text[]) AND run_id = ${runId} AND cursor ? 'checked_at')`);
    return at ?? "-infinity";
  });
}

/** Counts people of the inputs whose first death signal was seen after this time. */
export function countDeathsSince(
  db: Db,
  since: string,
): Promise<{ readonly people: number; readonly newestAt: string | null }> {
  return readBriefly(db, (session) =>
    session.one<{ people: number; newestAt: string | null }>(sql`
      SELECT count(*) AS people, to_char(max(at) AT TIME ZONE 'UTC', ${instant}) AS "newestAt" FROM (
        SELECT service_pid, min(first_seen_at) AS at FROM ${session.table("segment_death_signal")}
        GROUP BY 1 HAVING bool_or(is_present)) AS s
      WHERE at > ${since}::timestamptz AND EXISTS (
        SELECT FROM ${session.table("identity_link")} AS l WHERE l.service_pid = s.service_pid)`),
  );
}
