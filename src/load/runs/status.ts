import { type QueryCreator, sql } from "kysely";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import { type LockHolder, readHolders } from "./lock.ts";
import { readLastSuccess } from "./runs.ts";
import { counterNames, writers } from "../../schemas/ops.ts";
import type { Database } from "../../schemas/registry.ts";

const PAST_RUN = [
  ...([
    "job",
    "run_id",
    "shard",
    "status",
    "limited_by",
    "started_at",
    "finished_at",
    "records_due",
  ] as const),
  ...counterNames,
  "error",
] as const;

export type PastRun = Pick<Database["ops.sync_run"], (typeof PAST_RUN)[number]>;

/** Sums of a pass over an input. */
interface PassCoverage
  extends Omit<Database["ops.input_coverage"], "run_id" | "job" | "shard" | "_synced_at"> {
  /** Number of shards included in the sums. */
  readonly shards: number;
  /** Less than `shards` only before the first complete pass of all shards. */
  readonly shards_counted: number;
}

export interface JobStatus {
  readonly job: string;
  readonly lastRun: PastRun | null;
  /** Newest run of each shard, for the shard count of the newest run; empty before the first run. */
  readonly lastPass: readonly PastRun[];
  /** End of the last success ({@link isSuccess}); with shards, the oldest of theirs. */
  readonly lastSuccessAt: string | null;
  /** Null before the first completed run. */
  readonly coverage: PassCoverage | null;
  readonly openRejects: Readonly<Record<string, number>>;
  /** Current holders by shard, including expired ones that were not taken over. */
  readonly holders: readonly LockHolder[];
}

export type TableFreshness = Database["ops.table_freshness"];

const SHARD = sql<number>`split_part(shard, '/', 1)::bigint`;
const SHARD_COUNT = sql<number>`split_part(shard, '/', 2)::bigint`;

const pastRuns = (query: QueryCreator<Database>) => query.selectFrom("ops.sync_run").select(PAST_RUN);

/** Past runs to read, enough for some nights of many shards. */
const PAST_RUNS = 500;

/** Last runs of a job, newest first. */
export function lastRuns(db: Db, job: string, limit = PAST_RUNS): Promise<readonly PastRun[]> {
  return db.rows(lastRunsOf(db.query, job, limit));
}

const lastRunsOf = (query: QueryCreator<Database>, job: string, limit: number) =>
  pastRuns(query).where("job", "=", job).orderBy(sql`started_at DESC, run_id`).limit(limit);

/** Reads the start of each job's first run. */
export async function readFirstRuns(db: Db): Promise<ReadonlyMap<string, string>> {
  const rows = await db.rows(
    db.query
      .selectFrom("ops.sync_run")
      .select(({ fn }) => ["job", fn.min("started_at").as("at")])
      .groupBy("job"),
  );
  return new Map(rows.map(({ job, at }) => [job, at]));
}

export async function jobStatus(db: Db, job: string): Promise<JobStatus> {
  return db.transaction(async (session) => {
    const [lastRun] = await session.rows(lastRunsOf(session.query, job, 1));
    const lastPass = await session.rows(
      pastRuns(session.query)
        .distinctOn(SHARD)
        .where("job", "=", job)
        .where(SHARD_COUNT, "=", Number(lastRun?.shard.split("/")[1] ?? 1))
        .orderBy(sql`${SHARD}, started_at DESC, run_id`),
    );
    const coverage = await readCoverage(session, job);
    const rejects = await session.rows(
      session.query
        .selectFrom("data.reject")
        .select(({ fn }) => ["code", fn.countAll<number>().as("count")])
        .where("job", "=", job)
        .where("resolved_at", "is", null)
        .groupBy("code")
        .orderBy("code"),
    );
    return {
      job,
      lastRun: lastRun ?? null,
      lastPass,
      lastSuccessAt: await readLastSuccess(session, job),
      coverage,
      openRejects: Object.fromEntries(rejects.map((row) => [row.code, row.count])),
      holders: (await readHolders(session)).filter((holder) => holder.job === job),
    };
  });
}

/**
 * Newest coverage of the whole input: the sum of each shard's newest row, for the shard count
 * that is complete and has the newest oldest row; if none is complete, the shard count of the last run.
 */
async function readCoverage(session: Session, job: string): Promise<PassCoverage | null> {
  const table = session.table("input_coverage");
  const [coverage] = await session.rows<PassCoverage>(sql`
    WITH newest AS (
      SELECT DISTINCT ON (shard) *, ${SHARD_COUNT} AS shards FROM ${table}
      WHERE job = ${job} AND source = (SELECT source FROM ${table} WHERE job = ${job} ORDER BY _synced_at DESC LIMIT 1)
      ORDER BY shard, _synced_at DESC)
    SELECT source, sum(input_rows)::bigint AS input_rows, sum(answered)::bigint AS answered,
      sum(matched)::bigint AS matched, sum(unmatched)::bigint AS unmatched, sum(rejected)::bigint AS rejected,
      sum(due)::bigint AS due, min(oldest_answer_at) AS oldest_answer_at, shards, count(*) AS shards_counted
    FROM newest GROUP BY source, shards
    ORDER BY count(*) = shards DESC, CASE WHEN count(*) = shards THEN min(_synced_at) ELSE max(_synced_at) END DESC
    LIMIT 1`);
  return coverage ?? null;
}

export async function tableFreshness(db: Db): Promise<readonly TableFreshness[]> {
  return db.rows(db.query.selectFrom("ops.table_freshness").selectAll().orderBy("table_name"));
}

/** Reads the jobs of the newest runs, newest run first, jobs in the order of their start. */
export function readRecentRuns(
  db: Pick<Session, "rows" | "query">,
  runs: number,
): Promise<readonly PastRun[]> {
  return db.rows(
    pastRuns(db.query)
      .where("run_id", "in", (query) =>
        query
          .selectFrom("ops.sync_run")
          .select("run_id")
          .where("job", "not in", writers)
          .groupBy("run_id")
          .orderBy(sql`max(started_at) DESC, run_id`)
          .limit(runs),
      )
      .orderBy(sql`max(started_at) OVER (PARTITION BY run_id) DESC, run_id, started_at, job, shard`),
  );
}

/** Maximum IDs to name. */
const MAX_FOUND = 6;

/** Finds the runs with an ID, or else with IDs that begin so, newest first. */
export async function findRuns(db: Db, id: string): Promise<readonly string[]> {
  const found = await db.pluck<string>(sql`
    SELECT run_id FROM ${db.table("sync_run")}
    WHERE job <> ALL(${[...writers]}::text[]) AND left(run_id, length(${id})) = ${id}
    GROUP BY run_id ORDER BY max(started_at) DESC, run_id LIMIT ${MAX_FOUND}`);
  return found.includes(id) ? [id] : found;
}

/** Reads the jobs of a run with their counters, in the order of their start. */
export function readRunJobs(db: Db, runId: string): Promise<readonly Database["ops.sync_run"][]> {
  return db.rows(
    db.query
      .selectFrom("ops.sync_run")
      .selectAll()
      .where("run_id", "=", runId)
      .where("job", "not in", writers)
      .orderBy(sql`started_at, job, shard`),
  );
}
