import type { JobConfig } from "../config/config.ts";
import { enrichJob } from "./enrich.ts";
import type { LookupJobType, ReadResult } from "./lookup-type.ts";
import { resolveJob } from "./resolve.ts";
import { validateEmailsJob } from "./validate-emails.ts";

/** A job type's declaration, applied to one job. */
export interface BoundLookup extends Pick<LookupJobType, "endpoint" | "inputFields"> {
  readonly requestParameters: Readonly<Record<string, unknown>>;
  readonly pidFrom: string | null;
  readonly validEmailsFrom: string | null;
  readonly read: ReadResult;
}

function bind<J extends JobConfig>(type: LookupJobType<J>, job: J): BoundLookup {
  return {
    endpoint: type.endpoint,
    inputFields: type.inputFields,
    requestParameters: type.requestParameters(job),
    pidFrom: type.pidFrom(job),
    validEmailsFrom: type.validEmailsFrom(job),
    read: type.readerOf(job),
  };
}

/** Every type of job there is; a new one adds its line. */
export function bindLookup(job: JobConfig): BoundLookup {
  if (job.type === "resolve") return bind(resolveJob, job);
  if (job.type === "validate_emails") return bind(validateEmailsJob, job);
  return bind(enrichJob, job);
}
