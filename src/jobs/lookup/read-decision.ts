import type { PastRun } from "../../load/runs/job-status.ts";
import { priceOf } from "../price.ts";
import type { JobServices } from "../services.ts";
import type { Shard } from "../shard.ts";
import { decideSending, lastSendingRun, type SendCase, type SendDecision } from "./decide.ts";
import type { LookupJobConfig } from "./lookup-type.ts";

/** Decides whether a run can send or has to ask first, from the job's past runs (newest first). */
export function readDecision(
  { config }: Pick<JobServices, "config">,
  job: LookupJobConfig,
  found: Pick<SendCase, "counts" | "billable" | "resend" | "acceptParameters"> & {
    readonly pastRuns: readonly PastRun[];
    readonly shard: Shard;
  },
): SendDecision {
  const { pastRuns, shard, ...given } = found;
  return decideSending({
    ...given,
    price: priceOf(config, job.type),
    lastRun: lastSendingRun(pastRuns, shard),
    confirmAbove: config.confirmAbove,
  });
}
