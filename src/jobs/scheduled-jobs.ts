import type { Config, JobConfig } from "../config/config.ts";
import { orderJobs } from "../config/order-jobs.ts";
import { openSchedule, type Schedule } from "../schedule/slots.ts";

/** Job started by `schedule`. */
export interface ScheduledJob {
  readonly name: string;
  readonly schedule: Schedule;
  /** Scheduled predecessors, direct and indirect. */
  readonly after: readonly string[];
  /** Jobs without a schedule that run with it: its followers and their predecessors. */
  readonly companions: readonly string[];
}

/** Lists enabled jobs with a schedule in dependency order. */
export function scheduledJobs(config: Pick<Config, "jobs">): readonly ScheduledJob[] {
  const jobs = orderJobs(config);
  return jobs.flatMap((job) => {
    const schedule = job.schedule === null ? null : openSchedule(job.schedule, job.timezone);
    if (!schedule) return [];
    const before = predecessorsOf(config.jobs, job.name);
    const after = jobs.filter((other) => other.schedule !== null && before.has(other.name));
    return [
      {
        name: job.name,
        schedule,
        after: after.map(({ name }) => name),
        companions: companionsOf(jobs, job),
      },
    ];
  });
}

/** Lists enabled jobs that are never started: they have no schedule and run with no scheduled job. */
export function unscheduledJobs(config: Pick<Config, "jobs">): readonly string[] {
  const started = new Set(scheduledJobs(config).flatMap(({ name, companions }) => [name, ...companions]));
  return orderJobs(config).flatMap(({ name }) => (started.has(name) ? [] : [name]));
}

/** All predecessors of a job, including disabled jobs and theirs. */
function predecessorsOf(jobs: readonly JobConfig[], name: string): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (job: string) => {
    for (const other of jobs.find((one) => one.name === job)?.after ?? []) {
      if (found.has(other)) continue;
      found.add(other);
      visit(other);
    }
  };
  visit(name);
  return found;
}

function companionsOf(jobs: readonly JobConfig[], start: JobConfig): readonly string[] {
  const free = jobs.filter(({ schedule }) => schedule === null);
  const group = new Set<string>();
  const names = () => new Set([start.name, ...group]);
  for (let size = -1; size < group.size; ) {
    size = group.size;
    const inGroup = names();
    for (const job of free) {
      const follows = job.after.some((name) => inGroup.has(name));
      const isNeeded = free.some((other) => group.has(other.name) && other.after.includes(job.name));
      if (follows || isNeeded) group.add(job.name);
    }
  }
  return jobs.flatMap(({ name }) => (group.has(name) ? [name] : []));
}
