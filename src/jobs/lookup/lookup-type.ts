import type { InputConfig, JobConfig } from "../../config/config.ts";
import { ratio, wholeNumber } from "../../config/schema/described.ts";
import type { JobDeclaration } from "../../config/schema/jobs.ts";
import type { Settings } from "../../config/schema/settings.ts";
import { duration, inputName } from "../../config/schema/values.ts";
import type { DriftLog } from "../../schemas/drift.ts";
import type { LookupEndpoint } from "../../schemas/endpoint.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import type { LookupAnswer } from "../../load/lookups/answer.ts";
import type { PersonUpdate } from "../../load/lookups/person-groups.ts";
import type { LookupType } from "../../load/lookups/lookup.ts";

/** Settings of every lookup. */
export const lookupSettings = {
  input: inputName(),
  /** Null: an answer never expires. */
  refresh_after: duration().optional(),
  /** Defaults to `refresh_after`. */
  refresh_unmatched_after: duration().optional(),
  /** Null: no cap. */
  max_records_per_run: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
  /** Maximum rejected rows / rows sent, 0 to 1; by default 0.05 is reported for 1,000 records and more. */
  max_reject_ratio: ratio().optional(),
};

/** Job that sends the rows of an input. */
export interface LookupJobConfig extends JobConfig, Omit<Settings<typeof lookupSettings>, "input"> {
  readonly type: LookupType;
  readonly input: InputConfig;
}

/** Applies the default of `refresh_unmatched_after`. */
export function withRefresh<J extends Pick<LookupJobConfig, "refreshAfterMs" | "refreshUnmatchedAfterMs">>(
  job: J,
): J {
  return { ...job, refreshUnmatchedAfterMs: job.refreshUnmatchedAfterMs ?? job.refreshAfterMs };
}

/** Part of an answer that depends on the endpoint. */
export interface AnsweredPart extends Pick<LookupAnswer, "servicePid" | "cells" | "extra"> {
  /** `no_pid`: a match without a usable PID, which is no match and rejects its record. */
  readonly outcome: LookupAnswer["outcome"] | "no_pid";
  /** The person, for a match of an enrichment. */
  readonly person: PersonUpdate | null;
}

/** Converts one result to cells. Synchronous, so that the parsed answer can be freed at once. */
export type ReadResult = (result: JsonObject, drift: DriftLog) => AnsweredPart;

/** Type of a job that sends batches of records. */
export interface LookupJobType<J extends LookupJobConfig = LookupJobConfig> extends JobDeclaration {
  readonly type: LookupType;
  readonly endpoint: LookupEndpoint;
  /** Result tables, which are fresh after a successful run. */
  readonly writes: readonly string[];
  /** Fields of the interface's input record that the endpoint accepts. */
  readonly inputFields: readonly string[];
  /** Request parameters besides the records. */
  requestParameters(job: J): Readonly<Record<string, unknown>>;
  /** Settings that affect answers, besides the mapping. Changing them requires a decision by the user. */
  boughtWith(job: J): readonly unknown[];
  /** Resolve job whose PIDs are also sent. */
  pidFrom(job: J): string | null;
  /** Job whose invalid addresses are omitted. */
  validEmailsFrom(job: J): string | null;
  /** @param parameters request parameters besides the records */
  readerOf(parameters: Readonly<Record<string, unknown>>): ReadResult;
}
