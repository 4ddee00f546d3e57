import { addPeopleChanged } from "./people-changed.ts";
import { addCosts } from "../run.ts";
import { type JobReport, type RunReport, statusOf } from "../job.ts";
import type { JobServices } from "../services.ts";
import type { Db } from "../../load/db/db.ts";
import { readRunningJobs } from "../../load/history/queries.ts";
import { readPossiblyBilled } from "../../load/ledger/costs.ts";
import { findRuns, type PastRun, readRecentRuns, readRunJobs } from "../../load/runs/status.ts";
import { silentLog } from "../../log.ts";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";

/** A past or running run, in `runs list --json`. */
export interface ListedRun extends Pick<ShownRun, "run_id" | "started_at" | "finished_at" | "status"> {
  readonly records_sent: number;
  readonly records_matched: number;
  readonly records_rejected: number;
  readonly records_remaining: number;
  /** End of each job, by shard if it has several. */
  readonly jobs: readonly Pick<JobReport, "job" | "shard" | "status" | "limited_by">[];
  /** Records that may have been billed without a response. */
  readonly possibly_billed: number;
}

/** Reads the newest runs, newest first. */
export async function listRuns(db: Db, limit: number): Promise<readonly ListedRun[]> {
  const isAlive = await readAlive(db);
  const runs = Map.groupBy(await readRecentRuns(db, limit), (row) => row.run_id);
  const possible = await readPossiblyBilled(db, [...runs.keys()]);
  return [...runs].map(([runId, rows]) => {
    const sum = (name: RunCounter) => rows.reduce((total, row) => total + row[name], 0);
    const jobs = rows.map((row) => {
      const { error: _, ...end } = reportOf(row, isAlive);
      return end;
    });
    return {
      run_id: runId,
      ...timesOf(rows),
      records_sent: sum("records_sent"),
      records_matched: sum("records_matched"),
      records_rejected: sum("records_rejected"),
      records_remaining: sum("records_remaining"),
      status: statusOf(jobs),
      jobs,
      possibly_billed: possible
        .filter((one) => one.run_id === runId)
        .reduce((total, { records }) => total + records, 0),
    };
  });
}

/** Start of a run; its end, or null while it is running. */
function timesOf(rows: readonly Pick<PastRun, "started_at" | "finished_at">[]) {
  const ends = rows.flatMap(({ finished_at: at }) => (at === null ? [] : [at]));
  return {
    started_at: rows.map(({ started_at: at }) => at).toSorted()[0] ?? "",
    finished_at: ends.length < rows.length ? null : (ends.toSorted().at(-1) ?? null),
  };
}

/** A past or running run, in `runs show --json`. */
interface ShownRun extends RunReport {
  readonly started_at: string;
  /** Null while it is running. */
  readonly finished_at: string | null;
}

/** Finds the run with an ID or a prefix of it. Returns the IDs of several runs with that prefix, or of none. */
export async function showRun(
  services: Pick<JobServices, "config" | "db" | "log">,
  id: string,
): Promise<ShownRun | readonly string[]> {
  const { db } = services;
  const ids = await findRuns(db, id);
  const [runId] = ids;
  if (runId === undefined || ids.length > 1) return ids;
  const isAlive = await readAlive(db);
  const rows = await readRunJobs(db, runId);
  const jobs = rows.map((row): JobReport => {
    const endMs = Date.parse(row.finished_at ?? "");
    const seconds = Number.isNaN(endMs) ? 0 : (endMs - Date.parse(row.started_at)) / 1000;
    const counters = Object.fromEntries(
      Object.keys(runCounters).map((name) => [name, row[name as RunCounter]]),
    );
    return {
      // The cast restores the key type that Object.fromEntries loses.
      ...(counters as Record<RunCounter, number>),
      ...reportOf(row, isAlive),
      type: row.job_type,
      seconds: Math.round(1000 * seconds) / 1000,
    };
  });
  const report = { status: statusOf(jobs), run_id: runId, jobs };
  const quiet = { ...services, log: silentLog };
  return {
    ...(await addCosts(quiet, await addPeopleChanged(quiet, report))),
    ...timesOf(rows),
  };
}

type IsAlive = (row: Pick<PastRun, "run_id" | "job" | "shard">) => boolean;

/** Reads which jobs of which runs a living process holds. */
async function readAlive(db: Db): Promise<IsAlive> {
  const { jobs } = await readRunningJobs(db);
  const alive = jobs.filter(({ isExpired }) => !isExpired);
  return (row) =>
    alive.some(({ runId, job, shard }) => runId === row.run_id && job === row.job && shard === row.shard);
}

const LOST = "The process ended without recording the end of the job; the next run takes over.";

function reportOf(
  row: Parameters<IsAlive>[0] & Pick<PastRun, "status" | "limited_by" | "error">,
  isAlive: IsAlive,
) {
  const { job, shard, status, limited_by: limit, error } = row;
  const isLost = status === "running" && !isAlive(row);
  const message = isLost ? LOST : error;
  return {
    job,
    ...(shard === "0/1" ? {} : { shard }),
    // The table holds these values only.
    status: (isLost ? "interrupted" : status) as JobReport["status"],
    ...(limit === null ? {} : { limited_by: limit as Exclude<JobReport["limited_by"], undefined> }),
    ...(message === null ? {} : { error: { code: limit ?? (isLost ? "lock_expired" : status), message } }),
  };
}
