import { beginRun, endRun } from "../load/runs/runs.ts";
import type { JobConfig } from "../config/config.ts";
import { holdJob } from "./hold-job.ts";
import { selectJobs } from "./job-selection.ts";
import { endOfError, interrupted, type JobEnd, locked, skipped } from "./job-end.ts";
import type { JobResult } from "./job-type.ts";
import { prepareRun } from "./prepare.ts";
import { jobTypeOf } from "./registry.ts";
import { type JobReport, type RunReport, statusOf, zeroCounters } from "./run-report.ts";
import type { JobServices, RunRequest } from "./services.ts";
import { shardText, wholeInput } from "./shard.ts";

export { exitCodeOf, type JobReport, type RunReport } from "./run-report.ts";
export type { JobServices, Progress, RunRequest } from "./services.ts";
export { verifyInputs } from "./verify-inputs.ts";

/**
 * Runs jobs once, in dependency order. What befalls a job stands in its report; thrown is only what hinders all of them
 * before anything was sent (a FixConfigurationError: before anything was touched).
 */
export async function runJobs(services: JobServices, request: RunRequest): Promise<RunReport> {
  const selected = selectJobs(services.config, request.jobs);
  // A feed is read as a whole, and by one of the shards.
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
  const shard = request.shard.count > 1 ? { shard: shardText(request.shard) } : {};
  return { status: statusOf(reports), run_id: request.runId, ...shard, jobs: reports };
}

type Ends = ReadonlyMap<string, JobEnd>;

/** Runs a job, unless something stands against it; logs how it ended. */
async function runOne(
  services: JobServices,
  job: JobConfig,
  request: RunRequest,
  ends: Ends,
): Promise<JobResult> {
  let result: JobResult;
  try {
    const hindrance = hindranceOf(services, job, request, ends);
    result = hindrance
      ? await leaveOut(services, job, request, hindrance)
      : await jobTypeOf(job).run(services, job, request);
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

/** Notes a job that is not begun, unless another process runs it and keeps its books. */
async function leaveOut(
  services: JobServices,
  job: JobConfig,
  { runId, shard }: RunRequest,
  end: JobEnd,
): Promise<JobResult> {
  const left = { end, counters: zeroCounters };
  const { status, limitedBy, error } = end;
  if (status === "locked") return left;
  const part = jobTypeOf(job).isSharded ? shard : wholeInput;
  const wanted = { runId, job: job.name, jobType: job.type, shard: shardText(part) };
  const hold = await holdJob(services, wanted, { wait: false });
  if (hold.kind === "refused") return left;
  const { run, release } = hold.held;
  const runEnd = { status, limitedBy, error: error?.message ?? null, counters: zeroCounters };
  try {
    await beginRun(services.db, run);
    await endRun(services.db, run, runEnd, null);
  } finally {
    await release();
  }
  return left;
}

/** Why a job is not begun; null when nothing stands against it. */
function hindranceOf(
  services: JobServices,
  job: JobConfig,
  { failedBefore = [] }: RunRequest,
  ends: Ends,
): JobEnd | null {
  for (const [name, end] of ends) {
    if (end.stopsRun)
      return skipped("run_stopped", `${job.name} was not begun, because ${name} ended the run.`);
  }
  const broken = job.after.find(
    (name) => ["failed", "skipped"].includes(ends.get(name)?.status ?? "") || failedBefore.includes(name),
  );
  if (broken !== undefined) {
    return skipped("dependency_failed", `${job.name} was not begun, because ${broken} did not succeed.`);
  }
  const held = job.after.find((name) => ends.get(name)?.status === "locked");
  if (held !== undefined) {
    return locked(
      "dependency_locked",
      `${job.name} was not begun, because another process runs ${held}, which comes first.`,
    );
  }
  return services.signal.aborted ? interrupted : null;
}
