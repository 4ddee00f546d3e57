import type { Config } from "../../config/config.ts";
import type { Cap } from "./caps.ts";
import { type BillableEstimate, billableText, estimateBillable, estimateSeconds } from "./estimate.ts";
import { countText, durationText } from "../../figures.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import { bindLookup } from "./lookup-types.ts";
import type { Price } from "../../money.ts";
import { costText, estimateCost, priceOf } from "../price.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";

/** Predicted size of a run. */
interface Forecast {
  /** Distinct records to send. */
  readonly records: number;
  readonly calls: number;
  readonly billable: BillableEstimate;
  /** Price of one billed record; null without one. */
  readonly price: Price | null;
  readonly seconds: number;
}

/**
 * Predicts calls, billed records and duration.
 * @param given.cap maximum records to send; null for no limit
 * @param given.toCome records that become due during the run: their rows wait for an earlier job of the same run
 */
export function forecastOf(
  config: Pick<Config, "service" | "prices">,
  job: LookupJobConfig,
  counts: LookupCounts,
  given: { readonly cap: Cap | null; readonly toCome?: number },
): Forecast {
  const { cap, toCome = 0 } = given;
  const { endpoint } = bindLookup(job);
  const { concurrency, limits, requestsPerSecond } = config.service;
  const toSend = Math.min(counts.toSend + toCome, cap?.records ?? Number.POSITIVE_INFINITY);
  const calls = Math.ceil(toSend / endpoint.maxRecords);
  const billable = estimateOf(job, counts, { cap, waiting: toCome });
  const rest = `, including ${countText(toCome, "record")} that ${toCome === 1 ? "waits" : "wait"} for ${waitsFor(job)}`;
  return {
    records: toSend,
    calls,
    billable: { ...billable, basis: toCome === 0 ? billable.basis : billable.basis + rest },
    price: priceOf(config, job.type),
    seconds: estimateSeconds(calls, {
      concurrency,
      requestsPerSecond: limits[endpoint.path]?.requestsPerSecond ?? requestsPerSecond,
    }),
  };
}

function estimateOf(
  job: LookupJobConfig,
  { groups, history }: LookupCounts,
  { cap, waiting }: { readonly cap: Cap | null; readonly waiting: number },
): BillableEstimate {
  const due = waiting === 0 ? { ...groups.toSend, waiting } : { ...groups.due, waiting };
  return estimateBillable(job.type === "validate_emails" ? "address" : "match", due, history, {
    isOrdered: job.input.orderBy !== null,
    ...(cap === null ? {} : { most: cap.records }),
  });
}

/** Forecast as one line for the user; `plan` has the details. */
export function forecastText(
  job: LookupJobConfig,
  counts: LookupCounts,
  { calls, billable, price, seconds }: Forecast,
  cap: Cap | null,
): string {
  const text = (count: number) =>
    job.type === "validate_emails" ? countText(count, "address", "addresses") : countText(count, "row");
  const later = counts.remaining > 0 && cap ? `; ${text(counts.remaining)} remaining (${cap.limitedBy})` : "";
  if (counts.toSend === 0) {
    return `${job.name}: ${later === "" ? `nothing is due among ${text(counts.read)}` : `nothing to send${later}`}`;
  }
  const sending = `${countText(counts.toSend, "record")} to send in ${countText(calls, "call")}`;
  const cost = price ? `, ${costText(estimateCost(billable, price))}` : "";
  return `${job.name}: ${sending}, ${billableText(billable)} billed${cost}, about ${durationText(seconds)}${later}`;
}

function waitsFor(job: LookupJobConfig): string {
  return bindLookup(job).pidFrom ?? "another job";
}
