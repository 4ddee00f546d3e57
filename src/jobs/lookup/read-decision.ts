import { readFormerJob } from "../../load/due/former-jobs.ts";
import type { PastRun } from "../../load/runs/job-status.ts";
import { priceOf } from "../price.ts";
import type { JobServices } from "../services.ts";
import type { Shard } from "../shard.ts";
import { decideSending, lastSendingRun, type SendCase, type SendDecision } from "./decide.ts";
import type { LookupJobConfig } from "./lookup-type.ts";

/** Decides whether a run can send or has to ask first, from the job's past runs (newest first). */
export async function readDecision(
  { config, db }: Pick<JobServices, "config" | "db">,
  job: LookupJobConfig,
  found: Pick<SendCase, "counts" | "billable" | "resend" | "acceptParameters"> & {
    readonly pastRuns: readonly PastRun[];
    readonly shard: Shard;
  },
): Promise<SendDecision> {
  const { pastRuns, shard, ...given } = found;
  const names = config.jobs.map(({ name }) => name);
  return decideSending({
    ...given,
    price: priceOf(config, job.type),
    lastRun: lastSendingRun(pastRuns, shard),
    confirmAbove: config.confirmAbove,
    formerJob: await readFormerJob(db, { source: job.input.name, type: job.type }, names),
  });
}
