import type { JobConfig } from "../config/config.ts";
import { type BilledDay, readBilledInRun } from "../load/ledger/costs.ts";
import { finishErasuresQuietly } from "./erase/erase.ts";
import { findHeldChain } from "./hold-job.ts";
import { selectJobs } from "./job-selection.ts";
import {
  ended,
  endOfError,
  interrupted,
  type JobEnd,
  type JobReport,
  type JobResult,
  runJob,
  type RunReport,
  statusOf,
  zeroCounters,
} from "./job.ts";
import { lookupTypes } from "./lookup/lookup-types.ts";
import { prepareRun } from "./prepare.ts";
import { costOfBilled } from "./price.ts";
import { jobTypeOf } from "./registry.ts";
import { addPeopleChanged } from "./report/people-changed.ts";
import { identifyService } from "./service-identity.ts";
import { type JobServices, type RunRequest, type Shard, shardText, wholeInput } from "./services.ts";

/**
 * Runs jobs once, in dependency order. Job failures are returned in the report. Throws only if nothing could be started
 * (a FixConfigurationError: before anything was changed).
 */
export async function runJobs(services: JobServices, request: RunRequest): Promise<RunReport> {
  const selected = selectJobs(services.config, request.jobs);
  // Only the first shard runs feeds, for all shards.
  const jobs = selected.filter((job) => request.shard.index === 0 || jobTypeOf(job).isSharded);
  for (const job of selected) {
    if (!jobs.includes(job)) services.log.info({ job: job.name }, "left_to_first_shard");
  }
  await prepareRun(services, jobs);
  await identifyService(services, request.runId).catch((error: unknown) => {
    // A signal interrupts every job below, before it sends anything.
    if (!services.signal.aborted) throw error;
  });
  const reports: JobReport[] = [];
  const ends = new Map<string, JobEnd>();
  const locks = jobs.map((job) => ({ job: job.name, shard: shardText(shardOf(job, request)) }));
  const held = await findHeldChain(services, locks, request);
  for (const job of jobs) {
    const startedAtMs = services.clock.now();
    const { end, counters } = await runOne(services, job, request, { ends, held });
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
  const report = { status: statusOf(reports), run_id: request.runId, ...shard, jobs: reports };
  return addCosts(services, await addPeopleChanged(services, report));
}

interface Chain {
  /** Ends of the jobs before it. */
  readonly ends: ReadonlyMap<string, JobEnd>;
  /** Job held by another process when the run began; null for none. */
  readonly held: Awaited<ReturnType<typeof findHeldChain>>;
}

function shardOf(job: JobConfig, request: RunRequest): Shard {
  return jobTypeOf(job).isSharded ? request.shard : wholeInput;
}

/** Runs a job, or records why it is skipped; logs its end. */
async function runOne(
  services: JobServices,
  job: JobConfig,
  request: RunRequest,
  chain: Chain,
): Promise<JobResult> {
  let result: JobResult;
  try {
    const type = jobTypeOf(job);
    const shard = shardOf(job, request);
    const skip = skipReason(services, job, request, chain);
    if (!skip) {
      const start = { job, request, shard, writes: type.writes };
      result = await runJob(services, start, (context) => type.run(context));
    } else {
      if (skip.status !== "locked") {
        // Records the skipped job, unless another process runs it and records it itself.
        const start = { job, request: { ...request, waitMs: 0 }, shard, writes: [] };
        await runJob(services, start, async () => ({ end: skip }));
      }
      result = { end: skip, counters: zeroCounters };
    }
  } catch (error) {
    result = { end: endOfError(error, "starting the job"), counters: zeroCounters };
  }
  const { end, counters } = result;
  const { status, error, cause } = end;
  const fields = { job: job.name, status, limited_by: end.limitedBy, ...counters };
  if (status === "failed") services.log.error({ ...fields, ...error, error: cause }, "job_failed");
  else services.log.info(fields, "job_ended");
  return result;
}

function skipReason(
  services: JobServices,
  job: JobConfig,
  { failedBefore = [] }: RunRequest,
  { ends, held }: Chain,
): JobEnd | null {
  if (held?.job === job.name) return ended("locked", "locked", held.message);
  for (const [name, end] of ends) {
    if (end.stopsRun)
      return ended("skipped", "run_stopped", `${job.name} was skipped because ${name} ended the run.`);
  }
  const broken = job.after.find(
    (name) => ["failed", "skipped"].includes(ends.get(name)?.status ?? "") || failedBefore.includes(name),
  );
  if (broken !== undefined) {
    return ended(
      "skipped",
      "dependency_failed",
      `${job.name} was skipped because ${broken} did not succeed.`,
    );
  }
  const lockedJob = held?.job ?? [...ends].find(([, end]) => end.status === "locked")?.[0];
  if (lockedJob !== undefined) {
    return ended(
      "locked",
      "chain_locked",
      `${job.name} was skipped, because another process is running ${lockedJob}, a job of the same run.`,
    );
  }
  return services.signal.aborted ? interrupted : null;
}

/** Adds to a run's report what may have been billed and, with `prices`, the cost: of each job that can be billed, and the sums. */
export async function addCosts(
  { config, db, log }: Pick<JobServices, "config" | "db" | "log">,
  report: RunReport,
): Promise<RunReport> {
  let rows: readonly BilledDay[];
  try {
    rows = await readBilledInRun(db, report.run_id);
  } catch (error) {
    log.warn({ error }, "cost_unknown");
    return report;
  }
  const currency = config.prices?.currency ?? null;
  const costsOf = (own: readonly BilledDay[]) => ({
    possibly_billed: own.reduce((sum, { possiblyBilled }) => sum + possiblyBilled, 0),
    ...(currency === null ? {} : { cost: costOfBilled(own, currency) }),
  });
  const jobs = report.jobs.map((job, at) => {
    // Shards of a job share its costs, which the first one shows.
    if (report.jobs.findIndex((other) => other.job === job.job) < at) return job;
    const own = rows.filter((row) => row.job === job.job);
    const isBilled = own.length > 0 || lookupTypes.some(({ type }) => type === job.type);
    return isBilled ? { ...job, ...costsOf(own) } : job;
  });
  const named = rows.filter((row) => report.jobs.some(({ job }) => job === row.job));
  return { ...report, jobs, ...costsOf(named) };
}
