import type { JobType } from "../job-type.ts";
import { runLookup } from "./lookup-job.ts";
import { planLookup } from "./plan-lookup.ts";
import { readSourceOf } from "./lookup-spec.ts";
import type { LookupJobConfig, LookupJobType } from "./lookup-type.ts";

/** Completes a lookup's declaration to a job type. */
export function lookupJob(lookup: LookupJobType): JobType {
  const type: JobType<LookupJobConfig> = {
    ...lookup,
    endpoints: [{ ...lookup.endpoint, method: "POST" }],
    isSharded: true,
    reads: ({ input }, config) => [readSourceOf(input, config)],
    plan: planLookup,
    run: runLookup,
    checkpoints: null,
  };
  return type;
}
