import type { Config, JobConfig } from "../config/config.ts";
import type { LookupCounts } from "../load/warehouse.ts";
import { type BillableEstimate, countText, estimateBillable, estimateSeconds } from "./estimate.ts";
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
  const rows = `${job.name}: ${countText(counts.read, "row")} read, ${countText(counts.due, "row")} due`;
  const held = [
    counts.waiting > 0 ? `${countText(counts.waiting, "row")} waiting for ${waitsFor(job)}` : null,
    counts.rejectedBeforeSending > 0 ? `${countText(counts.rejectedBeforeSending, "row")} rejected` : null,
  ].filter((part) => part !== null);
  if (counts.toSend === 0) return [rows, ...held, "nothing to send"].join(", ");
  const billed =
    billable.low === billable.high
      ? `${countText(billable.expected, "record")} billed`
      : `about ${countText(billable.expected, "record")} billed (${billable.low} to ${billable.high})`;
  const sending = `${countText(counts.toSend, "record")} to send in ${countText(calls, "call")}`;
  return `${[rows, ...held, sending, billed].join(", ")}: ${billable.basis}`;
}

function waitsFor(job: JobConfig): string {
  return (job.type === "enrich" ? job.pidFrom : null) ?? "another job";
}
