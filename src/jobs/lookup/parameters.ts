import { createHash } from "node:crypto";
import type { LookupJobConfig } from "../../config/config.ts";

/** Changes only with the form below; a new version makes every answer look bought with other parameters, so keep it. */
const FORM = "person-etl/parameters/1";

/**
 * Hash of what answers are bought with: mapping and request parameters. Where the rows are, which of them are read and how
 * long an answer lasts is not in it.
 * @param fields the mapping's used fields and their columns, in order where a field has several.
 */
export function hashParameters(
  job: LookupJobConfig,
  fields: Readonly<Record<string, readonly string[]>>,
): string {
  const mapping = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify([FORM, job.type, mapping, ...requestParameters(job)]))
    .digest("hex");
}

function requestParameters(job: LookupJobConfig): readonly unknown[] {
  if (job.type === "validate_emails") return [];
  if (job.type === "resolve") return [job.validEmailsFrom !== null];
  return [
    job.validEmailsFrom !== null,
    job.pidFrom !== null,
    distinct(job.returnFields),
    distinct(job.matchConditionFields),
    job.includePremiumFields,
  ];
}

/** Order and repetition mean nothing to the service. */
function distinct(values: readonly string[]): readonly string[] {
  return [...new Set(values)].toSorted();
}
