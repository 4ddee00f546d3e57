import type { LookupJobConfig } from "../../config/config.ts";
import type { LookupAnswer, PersonUpdate } from "../../load/lookup.ts";
import type { DriftLog } from "../../schemas/drift.ts";
import type { LookupEndpoint } from "../../schemas/endpoint.ts";
import type { JsonObject } from "../../schemas/flatten.ts";

/** What of an answer depends on the endpoint. */
export interface AnsweredPart extends Pick<LookupAnswer, "outcome" | "servicePid" | "cells" | "extra"> {
  /** The person, for a match of an enrichment. */
  readonly person: PersonUpdate | null;
}

/** Makes rows' cells of one result; synchronous, so that the parsed answer can be dropped at once. */
export type ReadResult = (result: JsonObject, drift: DriftLog) => AnsweredPart;

/** A type of job that sends batches of records: what its file declares. */
export interface LookupJobType<J extends LookupJobConfig = LookupJobConfig> {
  readonly endpoint: LookupEndpoint;
  /** Fields of the interface's input record that the endpoint takes. */
  readonly inputFields: readonly string[];
  /** What stands in the request's body beside the records. */
  requestParameters(job: J): Readonly<Record<string, unknown>>;
  /** The resolve job whose PIDs are sent along. */
  pidFrom(job: J): string | null;
  /** The job whose invalid addresses are left out. */
  validEmailsFrom(job: J): string | null;
  /** @param parameters what stood in the request beside the records. */
  readerOf(parameters: Readonly<Record<string, unknown>>): ReadResult;
}
