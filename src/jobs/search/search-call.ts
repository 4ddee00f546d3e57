import { StopJobError } from "../../errors.ts";
import { type FreeCall, type FreeReply, readEnvelope } from "../../extract/free-call.ts";
import { countOf } from "../../schemas/convert.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { readId } from "../../schemas/error-body.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import { personSearchEndpoints } from "../../schemas/person-search.ts";
import { searchUsageEndpoint } from "../../schemas/usage.ts";
import type { FeedContext } from "../feed-type.ts";

const { create } = personSearchEndpoints;

/** Code of a query without criteria. */
const NO_FILTERS = "no_filters_extracted";
type Refused = Extract<FreeReply<unknown>, { readonly kind: "refused" }>;

/** Parses an answer; null if it is no search. */
export function readSearch(bytes: Buffer, drift: DriftLog): JsonObject | null {
  const body = readEnvelope(bytes, drift);
  return body && readId(body["search_id"]) !== null ? body : null;
}

/** Builds the call that makes a search. */
export function searchCall(
  search: { readonly query: string; readonly size: number },
  drift: DriftLog,
): FreeCall<JsonObject> {
  return {
    endpoint: create.name,
    method: create.method,
    path: create.path,
    body: JSON.stringify(search),
    recordsSent: 1,
    expects: [400],
    isOnce: true,
    read: (bytes) => readSearch(bytes, drift),
  };
}

/** Error for a refused query. @param subject `prospects: the query of cfo_texas` */
export function queryRefused(subject: string, { error, stop }: Refused): StopJobError {
  if (error.code !== null && error.code !== NO_FILTERS) return stop;
  return new StopJobError(
    NO_FILTERS,
    `${subject} has no criteria that the service finds (400). Describe an audience by role, industry, company, place, age, education or ` +
      "contact channel; named individuals can't be searched for.",
  );
}

/** Remaining records of the organization's daily limit. */
export interface Quota {
  readonly limit: number;
  left: number;
}

/** Reads the daily delivery limit; null if the service doesn't report it. */
export async function readQuota(context: Pick<FeedContext, "call">): Promise<Quota | null> {
  const { name, method, path } = searchUsageEndpoint;
  try {
    const reply = await context.call({
      endpoint: name,
      method,
      path: `${path}?days=1`,
      body: null,
      read: (bytes) => readEnvelope(bytes, new DriftLog(name)),
    });
    if (reply.kind === "refused") return null;
    const limit = countOf(reply.value["daily_record_limit"]);
    const left = countOf(reply.value["current_day_remaining"]);
    return limit === null || left === null ? null : { limit, left };
  } catch (error) {
    // The service enforces its limit by itself.
    if (error instanceof StopJobError) return null;
    throw error;
  }
}
