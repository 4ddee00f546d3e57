import type { Config, JobConfig } from "../config/config.ts";
import type { LookupCounts } from "../load/warehouse.ts";
import {
  type BillableEstimate,
  billableText,
  countText,
  estimateBillable,
  estimateSeconds,
} from "./estimate.ts";
import { bindLookup } from "./lookup-types.ts";

/** What a run of a job will take. */
export interface Forecast {
  readonly calls: number;
  readonly billable: BillableEstimate;
  readonly seconds: number;
}

/**
 * Foresees what sending takes.
 * @param toCome rows that will be due only then: they wait for a job that comes first in the same run.
 */
export function forecastOf(config: Config, job: JobConfig, counts: LookupCounts, toCome = 0): Forecast {
  const { endpoint } = bindLookup(job);
  const { concurrency, limits, requestsPerSecond } = config.service;
  const toSend = Math.min(counts.toSend + toCome, job.maxRecordsPerRun ?? Number.POSITIVE_INFINITY);
  const calls = Math.ceil(toSend / endpoint.maxRecords);
  const billable = estimateBillable(job.type, toSend, counts);
  const rest = `, ${countText(toCome, "row")} that ${toCome === 1 ? "waits" : "wait"} for ${waitsFor(job)} included`;
  return {
    calls,
    billable: { ...billable, basis: toCome === 0 ? billable.basis : billable.basis + rest },
    seconds: estimateSeconds(calls, {
      concurrency,
      requestsPerSecond: limits[endpoint.path]?.requestsPerSecond ?? requestsPerSecond,
    }),
  };
}

/** The forecast as a line for people. */
export function forecastText(job: JobConfig, counts: LookupCounts, { calls, billable }: Forecast): string {
  const text = (count: number) =>
    job.type === "validate_emails" ? countText(count, "address", "addresses") : countText(count, "row");
  const found = [
    `${job.name}: ${text(counts.read)} read`,
    `${text(counts.due)} due`,
    ...(counts.waiting > 0 ? [`${text(counts.waiting)} waiting for ${waitsFor(job)}`] : []),
    ...(counts.rejectedBeforeSending > 0 ? [`${text(counts.rejectedBeforeSending)} rejected`] : []),
  ];
  if (counts.toSend === 0) return [...found, "nothing to send"].join(", ");
  const sending = `${countText(counts.toSend, "record")} to send in ${countText(calls, "call")}`;
  return [...found, sending, `${billableText(billable)} billed (${billable.basis})`].join(", ");
}

function waitsFor(job: JobConfig): string {
  return (job.type === "enrich" ? job.pidFrom : null) ?? "another job";
}
