import { createHash } from "node:crypto";
import { z } from "zod";
import { text } from "../../config/schema/settings.ts";
import type { NestedProblem } from "../../config/problems.ts";
import type { JobDeclaration } from "../../config/schema/jobs.ts";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import { type FreeCall, type FreeReply, fromEnvelope, readEnvelope } from "../../extract/free-call.ts";
import { callRecorded, type FeedContext } from "../feed.ts";
import { type UnlockCost, unlockCost } from "../price.ts";
import type { JobServices } from "../services.ts";
import { readErasedPids } from "../../load/write/erased.ts";
import { countOf } from "../../schemas/convert.ts";
import { readId } from "../../schemas/error-body.ts";
import { isJsonObject, type JsonObject } from "../../schemas/flatten.ts";
import {
  MAX_QUERY_LENGTH,
  MAX_SEARCH_SIZE,
  personSearchEndpoints,
  readPids,
  searchChannels,
} from "../../schemas/person-search.ts";
import { searchUsageEndpoint } from "../../schemas/usage.ts";

export function queryText() {
  return text(
    {
      expects: `a description of an audience, at most ${MAX_QUERY_LENGTH} characters`,
      hint: 'for example "registered nurses in Ohio with a personal email"',
    },
    (query) => Array.from(query).length > MAX_QUERY_LENGTH,
  );
}

/** Stream of a search: its identity, so that the same text is searched once, whatever its name. */
export function streamOf(query: string, size: number | null = null): string {
  return createHash("sha256")
    .update(JSON.stringify([query, size]))
    .digest("hex")
    .slice(0, 16);
}

const written = z.record(
  z.string(),
  z.object({ query: z.string(), size: z.number().default(MAX_SEARCH_SIZE) }),
);

export const findSearchProblems: NonNullable<JobDeclaration["findProblems"]> = (job) => {
  const searches = written.safeParse(job["searches"]).data ?? {};
  const problems: NestedProblem[] = [];
  const earlier = new Map<string, string>();
  for (const [name, { query, size }] of Object.entries(searches)) {
    const path = ["searches", name];
    const stream = streamOf(query, size);
    const same = earlier.get(stream);
    if (same !== undefined) {
      problems.push({ path, message: `is the same search as ${same}`, hint: "remove one of them" });
    }
    earlier.set(stream, name);
  }
  return problems;
};

/** Code of a query without criteria. */
const NO_FILTERS = "no_filters_extracted";

type Refused = Extract<FreeReply<unknown>, { readonly kind: "refused" }>;

const { create } = personSearchEndpoints;

/** Parses an answer; null if it is no search. */
export const readSearch = fromEnvelope((body) => {
  const id = readId(body["search_id"]);
  return id === null ? null : { ...body, search_id: id };
});

export function searchCall(search: { readonly query: string; readonly size: number }): FreeCall<JsonObject> {
  return {
    endpoint: create,
    body: JSON.stringify(search),
    recordsSent: 1,
    expects: [400],
    isOnce: true,
    read: readSearch,
  };
}

/** Error for a refused query. @param subject `prospects: the query of cfo_texas` */
export function queryRefused(subject: string, { error, stop }: Refused): StopJobError {
  if (error.code !== null && error.code !== NO_FILTERS) return stop;
  return new StopJobError(
    NO_FILTERS,
    `${subject} has no criteria that the service recognizes (400). Describe an audience by role, industry, company, place, age, education or ` +
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
  const endpoint = searchUsageEndpoint;
  try {
    const reply = await context.call({ endpoint, path: `${endpoint.path}?days=1`, read: readEnvelope });
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

/** Throws a LimitReachedError if a search may return more than the daily limit leaves. @param caller job, for the message */
export function throwIfOverQuota(
  quota: Quota | null,
  caller: string,
  { name, size }: { readonly name: string; readonly size: number },
): void {
  if (quota === null || quota.left >= size) return;
  throw new LimitReachedError(
    "quota",
    `${caller}: the organization's daily limit of person search has ${quota.left} of ${quota.limit} records left until ` +
      `00:00 UTC, and ${name} may return ${size}. Run again tomorrow, or lower its size.`,
  );
}

/** Result of a search that is not stored. */
interface FoundPeople {
  readonly search_id: string;
  readonly total_count: number;
  readonly result_count: number;
  /** PIDs, without erased people. */
  readonly results: readonly string[];
  /** Number of people by contact channel: of all matches, and of the results. */
  readonly coverage: readonly {
    readonly channel: string;
    readonly total: number | null;
    readonly results: number | null;
  }[];
  /** Largest charge of an unlock of all matches. */
  readonly most_billable: number;
  /** Cost of {@link most_billable}; with `prices.unlock`. */
  readonly most_cost?: UnlockCost;
}

/** Makes one synchronous search without storing it, with at most as many results as the service allows. Records its calls in the ledger. */
export async function searchOnce(
  services: Pick<JobServices, "config" | "db" | "http" | "limiter" | "clock" | "log" | "signal" | "random">,
  runId: string,
  { query, size }: { readonly query: string; readonly size: number },
): Promise<FoundPeople> {
  const search = { query, size: Math.min(size, MAX_SEARCH_SIZE) };
  const call = <T>(one: FreeCall<T>) => callRecorded(services, { runId, job: "search" }, one);
  const quota = await readQuota({ call });
  throwIfOverQuota(quota, "search", { name: "this search", size: search.size });
  const reply = await call(searchCall(search));
  if (reply.kind === "refused") throw queryRefused("The query", reply);
  const { value: found, drift } = reply;
  const pids = readPids(found["results"], drift).rows.map(([, pid]) => pid);
  const erased = await readErasedPids(services.db, pids);
  const results = pids.filter((pid) => !erased.has(pid));
  const total = countOf(found["total_count"]) ?? results.length;
  const cost = await unlockCost(services, total);
  return {
    search_id: String(found["search_id"]),
    total_count: total,
    result_count: results.length,
    results,
    coverage: searchChannels.map((channel) => ({
      channel,
      total: coveredBy(found["total_contact_coverage"], channel),
      results: coveredBy(found["results_contact_coverage"], channel),
    })),
    most_billable: total,
    ...(cost ? { most_cost: cost } : {}),
  };
}

function coveredBy(coverage: unknown, channel: string): number | null {
  const one = isJsonObject(coverage) ? coverage[channel] : null;
  return isJsonObject(one) ? countOf(one["count"]) : null;
}
