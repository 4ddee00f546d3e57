import type { JobConfig } from "../../config/config.ts";
import { enrichJob } from "./enrich.ts";
import type { LookupJobConfig, LookupJobType, ReadResult } from "./lookup-type.ts";
import { resolveJob } from "./resolve.ts";
import { validateEmailsJob } from "./validate-emails.ts";
import type { LookupType } from "../../load/lookups/lookup.ts";

/** All types of lookups. */
export const lookupTypes: readonly LookupJobType[] = [resolveJob, validateEmailsJob, enrichJob];

/** Declaration of a job type, applied to one job. */
export interface BoundLookup extends Pick<LookupJobType, "endpoint" | "inputFields"> {
  readonly requestParameters: Readonly<Record<string, unknown>>;
  readonly boughtWith: readonly unknown[];
  readonly pidFrom: string | null;
  readonly validEmailsFrom: string | null;
  readonly read: ReadResult;
}

function typeNamed(name: LookupType): LookupJobType {
  const found = lookupTypes.find(({ type }) => type === name);
  if (!found) throw new Error(`there is no lookup of type ${name}`);
  return found;
}

/** True for a job that sends the rows of an input. */
export function isLookupJob(job: JobConfig): job is LookupJobConfig {
  return lookupTypes.some(({ type }) => type === job.type);
}

/** Returns the reader for answers to given parameters, independent of the current configuration. */
export function lookupAsked(
  type: LookupType,
  parameters: Readonly<Record<string, unknown>>,
): Pick<BoundLookup, "endpoint" | "read"> {
  const found = typeNamed(type);
  return { endpoint: found.endpoint, read: found.readerOf(parameters) };
}

/** Applies the declaration of a job's type to the job. */
export function bindLookup(job: LookupJobConfig): BoundLookup {
  const type = typeNamed(job.type);
  const requestParameters = type.requestParameters(job);
  return {
    endpoint: type.endpoint,
    inputFields: type.inputFields,
    requestParameters,
    boughtWith: type.boughtWith(job),
    pidFrom: type.pidFrom(job),
    validEmailsFrom: type.validEmailsFrom(job),
    read: type.readerOf(requestParameters),
  };
}
