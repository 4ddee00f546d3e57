import type { Config, JobConfig } from "../config/config.ts";
import { orderJobs } from "../config/order-jobs.ts";
import { suggest } from "../config/suggest.ts";
import { FixConfigurationError, type Problem } from "../errors.ts";

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
