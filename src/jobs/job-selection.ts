import type { Config, JobConfig } from "../config/config.ts";
import { orderJobs } from "../config/references.ts";
import { suggest } from "../suggest.ts";
import { FixConfigurationError, type Problem } from "../errors.ts";
import { openSchedule, type Schedule } from "../schedule/schedule.ts";

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

/** Selects jobs by name in dependency order; without names, all enabled ones. */
export function selectJobs(config: Config, names: readonly string[]): readonly JobConfig[] {
  const ordered = orderJobs(config);
  if (names.length === 0) {
    if (ordered.length > 0) return ordered;
    throw new FixConfigurationError("no_jobs", "No job is enabled in the configuration.");
  }
  const problems = names.flatMap((name) => problemsWith(config, name));
  if (problems.length > 0) {
    throw new FixConfigurationError("unknown_job", "These jobs can't run:", problems);
  }
  return ordered.filter((job) => names.includes(job.name));
}

/** Finds a job by name, including disabled ones, for commands that don't run it. */
export function findJob(config: Config, name: string): JobConfig {
  const job = config.jobs.find((job) => job.name === name);
  if (job) return job;
  const known = config.jobs.map((job) => job.name);
  throw new FixConfigurationError("unknown_job", "There is no such job:", missing(name, known));
}

function problemsWith(config: Config, name: string): readonly Problem[] {
  const path = `jobs.${name}`;
  const job = config.jobs.find((job) => job.name === name);
  if (!job) {
    const known = config.jobs.filter((job) => job.enabled).map((job) => job.name);
    return missing(name, known);
  }
  return job.enabled
    ? []
    : [
        {
          path: `${path}.enabled`,
          message: "is false: the job is disabled",
          hint: "set it to true to run the job",
        },
      ];
}

function missing(name: string, known: readonly string[]): readonly Problem[] {
  const meant = suggest(name, known);
  return [
    {
      path: `jobs.${name}`,
      message: "does not exist",
      hint: meant === null ? `the jobs are ${known.join(", ")}` : `did you mean ${meant}?`,
    },
  ];
}
