import { finishErasuresQuietly } from "./erase/erase.ts";
import type { JobConfig } from "../config/config.ts";
import { selectJobs } from "./job-selection.ts";
import { endOfError, interrupted, type JobEnd, locked, skipped } from "./job-end.ts";
import { type JobResult, runJob } from "./job.ts";
import { prepareRun } from "./prepare.ts";
import { jobTypeOf } from "./registry.ts";
import { type JobReport, type RunReport, statusOf, zeroCounters } from "./run-report.ts";
import type { JobServices, RunRequest } from "./services.ts";
import { shardText, wholeInput } from "./shard.ts";

export { exitCodeOf, type JobReport, type RunReport } from "./run-report.ts";
export type { JobServices, Progress, RunRequest } from "./services.ts";

/**
 * Runs jobs once, in dependency order. Job failures are returned in the report. Throws only if nothing could be started
 * (a FixConfigurationError: before anything was changed).
 */
export async function runJobs(services: JobServices, request: RunRequest): Promise<RunReport> {
  const selected = selectJobs(services.config, request.jobs);
  // One of the shards reads a feed as a whole.
  const jobs = selected.filter((job) => request.shard.index === 0 || jobTypeOf(job).isSharded);
  for (const job of selected) {
    if (!jobs.includes(job)) services.log.info({ job: job.name }, "left_to_first_shard");
  }
  await prepareRun(services, jobs);
  const reports: JobReport[] = [];
  const ends = new Map<string, JobEnd>();
  for (const job of jobs) {
    const startedAtMs = services.clock.now();
    const { end, counters } = await runOne(services, job, request, ends);
    ends.set(job.name, end);
    reports.push({
      job: job.name,
      type: job.type,
      status: end.status,
      ...(end.limitedBy === null ? {} : { limited_by: end.limitedBy }),
      ...counters,
      seconds: Math.round(services.clock.now() - startedAtMs) / 1000,
      ...(end.error === null ? {} : { error: end.error }),
    });
  }
  await finishErasuresQuietly(services);
  const shard = request.shard.count > 1 ? { shard: shardText(request.shard) } : {};
  return { status: statusOf(reports), run_id: request.runId, ...shard, jobs: reports };
}

type Ends = ReadonlyMap<string, JobEnd>;

/** Runs a job, or records why it is left out; logs its end. */
async function runOne(
  services: JobServices,
  job: JobConfig,
  request: RunRequest,
  ends: Ends,
): Promise<JobResult> {
  let result: JobResult;
  try {
    const type = jobTypeOf(job);
    const shard = type.isSharded ? request.shard : wholeInput;
    const skip = skipReason(services, job, request, ends);
    if (!skip) {
      const start = { job, request, shard, writes: type.writes };
      result = await runJob(services, start, (context) => type.run(context));
    } else {
      if (skip.status !== "locked") {
        // Records the skipped job, unless another process runs it and records it itself.
        const start = { job, request: { ...request, wait: false }, shard, writes: [] };
        await runJob(services, start, async () => ({ end: skip }));
      }
      result = { end: skip, counters: zeroCounters };
    }
  } catch (error) {
    result = { end: endOfError(error), counters: zeroCounters };
  }
  const { end, counters } = result;
  const { status, error, cause } = end;
  const fields = { job: job.name, status, limited_by: end.limitedBy, ...counters };
  if (status === "failed") services.log.error({ ...fields, ...error, error: cause }, "job_failed");
  else services.log.info(fields, "job_ended");
  return result;
}

/** Reason for leaving a job out; null if it can run. */
function skipReason(
  services: JobServices,
  job: JobConfig,
  { failedBefore = [] }: RunRequest,
  ends: Ends,
): JobEnd | null {
  for (const [name, end] of ends) {
    if (end.stopsRun)
      return skipped("run_stopped", `${job.name} was skipped, because ${name} ended the run.`);
  }
  const broken = job.after.find(
    (name) => ["failed", "skipped"].includes(ends.get(name)?.status ?? "") || failedBefore.includes(name),
  );
  if (broken !== undefined) {
    return skipped("dependency_failed", `${job.name} was skipped, because ${broken} did not succeed.`);
  }
  const held = job.after.find((name) => ends.get(name)?.status === "locked");
  if (held !== undefined) {
    return locked(
      "dependency_locked",
      `${job.name} was skipped, because another process runs ${held}, which it depends on.`,
    );
  }
  return services.signal.aborted ? interrupted : null;
}
