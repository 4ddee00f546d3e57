import type { Config, JobConfig } from "../../config/config.ts";
import { OWN_LIMITS } from "../../errors.ts";
import { nextSlot, type Schedule } from "../../schedule/slots.ts";
import { scheduledJobs } from "../scheduled-jobs.ts";
import type { JobStatus } from "../../load/runs/job-status.ts";

/** Freshness of a job. */
export type Freshness = "fresh" | "running" | "stale" | "never" | "off";

/** A slot may start this late. */
const GRACE_MS = 15 * 60_000;

/** Schedule of each job: its own, or that of the job it runs with. */
export function schedulesByJob(config: Pick<Config, "jobs">): ReadonlyMap<string, Schedule> {
  const schedules = new Map<string, Schedule>();
  for (const { name, schedule, companions } of scheduledJobs(config)) {
    for (const companion of companions) if (!schedules.has(companion)) schedules.set(companion, schedule);
    schedules.set(name, schedule);
  }
  return schedules;
}

/** Compares the age of a job's last success with its schedule. */
export function freshnessOf(
  job: Pick<JobConfig, "enabled">,
  status: JobStatus,
  given: { readonly schedule: Schedule | null; readonly staleAfterMs: number | null; readonly nowMs: number },
): Freshness {
  const { schedule, staleAfterMs, nowMs } = given;
  if (!job.enabled) return "off";
  if (status.holders.some(({ isExpired }) => !isExpired)) return "running";
  const goodMs = lastGoodMs(status);
  if (goodMs === null) return "never";
  if (staleAfterMs !== null && nowMs - goodMs > staleAfterMs) return "stale";
  if (schedule) {
    const next = nextSlot(schedule, goodMs);
    return next !== null && next.atMs + GRACE_MS < nowMs ? "stale" : "fresh";
  }
  return status.lastRun !== null && isGood(status.lastRun) ? "fresh" : "stale";
}

/** End of the last run that did everything allowed by the user's limits; null for none. */
function lastGoodMs({ lastSuccessAt, lastRun }: JobStatus): number | null {
  const ends = [lastSuccessAt, lastRun && isGood(lastRun) ? lastRun.finishedAt : null];
  const known = ends.flatMap((at) => (at === null ? [] : [Date.parse(at)]));
  return known.length === 0 ? null : Math.max(...known);
}

function isGood({
  status,
  limitedBy,
}: {
  readonly status: string;
  readonly limitedBy: string | null;
}): boolean {
  return status === "succeeded" || (status === "limited" && OWN_LIMITS.some((limit) => limit === limitedBy));
}
