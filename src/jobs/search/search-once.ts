import { LimitReachedError } from "../../errors.ts";
import { callFree, type FreeCall } from "../../extract/free-call.ts";
import { readErasedPids } from "../../load/write/erased.ts";
import { recordCalls } from "../../load/ledger/ledger.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import { countOf } from "../../schemas/convert.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { isJsonObject } from "../../schemas/flatten.ts";
import { personSearchEndpoints, readPids, searchChannels } from "../../schemas/person-search.ts";
import { type UnlockCost, unlockCost } from "../price.ts";
import type { JobServices } from "../services.ts";
import { queryRefused, readQuota, searchCall } from "./search-call.ts";

export { MAX_SEARCH_SIZE as LARGEST_SIZE } from "../../schemas/person-search.ts";

/** Job name of these calls in the ledger. */
const ASKER = "search";

/** Result of a search that is not stored. */
export interface FoundPeople {
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

/** Makes one synchronous search without storing it. Records its calls in the ledger. */
export async function searchOnce(
  services: Pick<JobServices, "config" | "db" | "http" | "limiter" | "clock" | "log" | "signal" | "random">,
  runId: string,
  search: { readonly query: string; readonly size: number },
): Promise<FoundPeople> {
  const { db } = services;
  const attempts: Attempt[] = [];
  const call = <T>(one: FreeCall<T>) =>
    callFree({ ...services, onAttempt: (attempt) => void attempts.push(attempt) }, one);
  const drift = new DriftLog(personSearchEndpoints.create.name);
  try {
    const quota = await readQuota({ call });
    if (quota !== null && quota.left < search.size) {
      throw new LimitReachedError(
        "quota",
        `The organization's daily limit of person search has ${quota.left} of ${quota.limit} records left until 00:00 UTC. Search for ` +
          "fewer people, or again tomorrow.",
      );
    }
    const reply = await call(searchCall(search, drift));
    if (reply.kind === "refused") throw queryRefused("The query", reply);
    const found = reply.value;
    const pids = readPids(found["results"], drift).rows.map(([, pid]) => pid);
    const erased = await readErasedPids(db, pids);
    const results = pids.filter((pid) => !erased.has(pid));
    const total = countOf(found["total_count"]) ?? results.length;
    const cost = unlockCost(services.config, total);
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
  } finally {
    await recordCalls(db, { runId, job: ASKER }, attempts);
  }
}

function coveredBy(coverage: unknown, channel: string): number | null {
  const one = isJsonObject(coverage) ? coverage[channel] : null;
  return isJsonObject(one) ? countOf(one["count"]) : null;
}
