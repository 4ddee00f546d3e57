import type { Config, JobConfig } from "./config.ts";

/**
 * Enabled jobs in dependency order, otherwise in file order. Disabled jobs still order the jobs before and after them.
 */
export function orderJobs(config: Pick<Config, "jobs">): readonly JobConfig[] {
  const waiting = [...config.jobs];
  const placed = new Set<string>();
  const known = new Set(waiting.map((job) => job.name));
  const ordered: JobConfig[] = [];
  while (waiting.length > 0) {
    const next = waiting.findIndex((job) => job.after.every((name) => placed.has(name) || !known.has(name)));
    const [job] = waiting.splice(Math.max(next, 0), 1);
    if (!job) break;
    placed.add(job.name);
    ordered.push(job);
  }
  return ordered.filter((job) => job.enabled);
}
