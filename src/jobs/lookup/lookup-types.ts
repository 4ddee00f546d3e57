import type { LookupJobConfig } from "../../config/config.ts";
import type { LookupType } from "../../load/lookup.ts";
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

const typeOf: Readonly<Record<LookupType, Pick<LookupJobType, "endpoint" | "readerOf">>> = {
  resolve: resolveJob,
  validate_emails: validateEmailsJob,
  enrich: enrichJob,
};

function bind<J extends LookupJobConfig>(type: LookupJobType<J>, job: J): BoundLookup {
  return {
    endpoint: type.endpoint,
    inputFields: type.inputFields,
    requestParameters: type.requestParameters(job),
    pidFrom: type.pidFrom(job),
    validEmailsFrom: type.validEmailsFrom(job),
    read: type.readerOf(type.requestParameters(job)),
  };
}

/** How answers are read that were asked for with given parameters, whatever the configuration says today. */
export function lookupAsked(
  type: LookupType,
  parameters: Readonly<Record<string, unknown>>,
): Pick<BoundLookup, "endpoint" | "read"> {
  const { endpoint, readerOf } = typeOf[type];
  return { endpoint, read: readerOf(parameters) };
}

/** Every type of job there is; a new one adds its line. */
export function bindLookup(job: LookupJobConfig): BoundLookup {
  if (job.type === "resolve") return bind(resolveJob, job);
  if (job.type === "validate_emails") return bind(validateEmailsJob, job);
  return bind(enrichJob, job);
}
