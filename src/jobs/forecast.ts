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

/** Foresees what sending takes. */
export function forecastOf(config: Config, job: JobConfig, counts: LookupCounts): Forecast {
  const { endpoint } = bindLookup(job);
  const { concurrency, limits, requestsPerSecond } = config.service;
  const calls = Math.ceil(counts.toSend / endpoint.maxRecords);
  return {
    calls,
    billable: estimateBillable(job.type, counts.toSend, counts),
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
