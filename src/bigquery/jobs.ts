import { setTimeout as delay } from "node:timers/promises";
import { type Client, pauseMs } from "./client.ts";
import { BigQueryFailure, isConflict, isDuplicate, isTransient } from "./failure.ts";

/** Reference of a job; outside the US and EU it is found only in its location. */
export interface JobReference {
  readonly jobId: string;
  readonly location?: string;
}

/** A successful job. */
interface FinishedJob {
  readonly jobReference: JobReference;
  readonly statistics?: {
    readonly totalBytesBilled?: string;
    readonly load?: { readonly outputRows?: string };
    readonly query?: { readonly totalBytesBilled?: string };
  };
}

interface Job extends FinishedJob {
  readonly status: {
    readonly state: string;
    readonly errorResult?: { readonly reason?: string; readonly message?: string };
  };
}

const FIRST_POLL_MS = 20;
const LONGEST_POLL_MS = 2_000;
const MAX_ATTEMPTS = 8;

/** Waits until a job has succeeded; throws its error if it failed. */
export async function finishedJob(client: Client, job: JobReference): Promise<FinishedJob> {
  for (let pause = FIRST_POLL_MS; ; pause = Math.min(LONGEST_POLL_MS, pause * 1.5)) {
    const found = await client.send<Job>({
      method: "GET",
      path: `/jobs/${job.jobId}`,
      query: { location: job.location },
    });
    const { state, errorResult } = found.status;
    if (state === "DONE" && !errorResult) return found;
    if (state === "DONE") {
      throw new BigQueryFailure(
        errorResult?.reason ?? "unknown",
        errorResult?.message ?? "the job failed",
        null,
      );
    }
    await delay(pause);
  }
}

/**
 * Runs a job under our own ID until an attempt succeeds. Waits for an attempt started earlier, by a process that died
 * or with a lost reply. The next attempt starts once the last one has failed with a transient error.
 * @param submit starts the job with this id; throws a duplicate error if it exists.
 */
export async function runJob(
  client: Client,
  job: { readonly id: string; readonly location: string | null },
  submit: (reference: JobReference & { readonly projectId: string }) => Promise<JobReference>,
): Promise<FinishedJob> {
  const { project } = client;
  const place = job.location === null ? {} : { location: job.location };
  for (let attempt = 1; ; attempt++) {
    const own = { projectId: project, jobId: `${job.id}_${attempt}`, ...place };
    let reference: JobReference;
    try {
      reference = await submit(own);
    } catch (error) {
      if (!isDuplicateJob(error)) throw error;
      reference = own;
    }
    try {
      return await finishedJob(client, reference);
    } catch (error) {
      const hasFailed = error instanceof BigQueryFailure && error.status === null && isJobError(error);
      if (!hasFailed || attempt === MAX_ATTEMPTS) throw error;
      await delay(pauseMs(attempt));
    }
  }
}

/** True for a transient error of the job itself; false for a lost connection to it. */
function isJobError(error: BigQueryFailure): boolean {
  const isConnection = /^(E[A-Z]|UND_)/.test(error.code);
  return !isConnection && (isTransient(error) || isConflict(error));
}

/** True if the job exists, not a table that its statement creates. */
function isDuplicateJob(error: unknown): boolean {
  return isDuplicate(error) && error instanceof Error && /Already Exists: Job/i.test(error.message);
}

/** Starts a job from its configuration. */
export async function insertJob(
  client: Client,
  jobReference: JobReference & { readonly projectId: string },
  configuration: object,
): Promise<JobReference> {
  const job = await client.send<FinishedJob>({
    method: "POST",
    path: "/jobs",
    body: { jobReference, configuration },
  });
  return job.jobReference;
}
