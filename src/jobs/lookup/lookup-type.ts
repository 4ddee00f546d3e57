import type { InputConfig, JobConfig } from "../../config/config.ts";
import { ratio, wholeNumber } from "../../config/schema/described.ts";
import type { JobDeclaration } from "../../config/schema/jobs.ts";
import type { Settings } from "../../config/schema/settings.ts";
import { duration, inputName } from "../../config/schema/values.ts";
import type { LookupAnswer, LookupType, PersonUpdate } from "../../load/lookup.ts";
import type { DriftLog } from "../../schemas/drift.ts";
import type { LookupEndpoint } from "../../schemas/endpoint.ts";
import type { JsonObject } from "../../schemas/flatten.ts";

/** Settings of every lookup. */
export const lookupSettings = {
  input: inputName(),
  /** Null: an answer never expires. */
  refresh_after: duration().optional(),
  /** Like `refresh_after` unless stated. */
  refresh_unmatched_after: duration().optional(),
  /** Null: no cap. */
  max_records_per_run: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
  /** Rejected rows / rows sent, 0 to 1; null: 0.05 from a thousand records on. */
  max_reject_ratio: ratio().optional(),
};

/** A job that sends the rows of an input. */
export interface LookupJobConfig extends JobConfig, Omit<Settings<typeof lookupSettings>, "input"> {
  readonly type: LookupType;
  readonly input: InputConfig;
}

/** Answers without a match expire like the others unless stated. */
export function withRefresh<J extends Pick<LookupJobConfig, "refreshAfterMs" | "refreshUnmatchedAfterMs">>(
  job: J,
): J {
  return { ...job, refreshUnmatchedAfterMs: job.refreshUnmatchedAfterMs ?? job.refreshAfterMs };
}

/** The part of an answer that depends on the endpoint. */
export interface AnsweredPart extends Pick<LookupAnswer, "outcome" | "servicePid" | "cells" | "extra"> {
  /** The person, for a match of an enrichment. */
  readonly person: PersonUpdate | null;
}

/** Makes rows' cells of one result; synchronous, so that the parsed answer can be dropped at once. */
export type ReadResult = (result: JsonObject, drift: DriftLog) => AnsweredPart;

/** A type of job that sends batches of records. */
export interface LookupJobType<J extends LookupJobConfig = LookupJobConfig> extends JobDeclaration {
  readonly type: LookupType;
  readonly endpoint: LookupEndpoint;
  /** Tables of results, which each successful run makes fresh. */
  readonly writes: readonly string[];
  /** Fields of the interface's input record that the endpoint takes. */
  readonly inputFields: readonly string[];
  /** Parameters of the request's body beside the records. */
  requestParameters(job: J): Readonly<Record<string, unknown>>;
  /** Settings that answers are bought with, beside the mapping; a change asks before answers are bought again. */
  boughtWith(job: J): readonly unknown[];
  /** The resolve job whose PIDs are sent along. */
  pidFrom(job: J): string | null;
  /** The job whose invalid addresses are left out. */
  validEmailsFrom(job: J): string | null;
  /** @param parameters those of the request, beside the records. */
  readerOf(parameters: Readonly<Record<string, unknown>>): ReadResult;
}
