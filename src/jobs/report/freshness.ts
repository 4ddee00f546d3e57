import type { Config, JobConfig } from "../../config/config.ts";
import { nextSlot, type Schedule } from "../../schedule/slots.ts";
import { scheduledJobs } from "../scheduled-jobs.ts";
import type { JobStatus } from "../../load/runs/job-status.ts";
import { isSuccess } from "../../load/runs/success.ts";

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
  if (status.lastSuccessAt === null) return "never";
  const succeededMs = Date.parse(status.lastSuccessAt);
  if (staleAfterMs !== null && nowMs - succeededMs > staleAfterMs) return "stale";
  if (schedule) {
    const next = nextSlot(schedule, succeededMs);
    return next !== null && next.atMs + GRACE_MS < nowMs ? "stale" : "fresh";
  }
  return status.lastPass.every(isSuccess) ? "fresh" : "stale";
}
