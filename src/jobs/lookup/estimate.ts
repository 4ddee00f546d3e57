import { count } from "../../figures.ts";

/** Estimated number of billed records of a run. */
export interface BillableEstimate {
  readonly low: number;
  readonly expected: number;
  readonly high: number;
  /** Basis of the estimate, as a phrase. */
  readonly basis: string;
}

/** Assumed duration of a full call. */
const ASSUMED_CALL_SECONDS = 1;

/** Estimates the seconds until all calls are answered, from the rate limit (if any) and the concurrency. */
export function estimateSeconds(
  calls: number,
  bounds: { readonly concurrency: number; readonly requestsPerSecond: number | null },
): number {
  const byConcurrency = (Math.ceil(calls / bounds.concurrency) || 0) * ASSUMED_CALL_SECONDS;
  const byRate = bounds.requestsPerSecond === null ? 0 : calls / bounds.requestsPerSecond;
  return Math.ceil(Math.max(byConcurrency, byRate));
}

/** `1,234`; `about 1,234 (1,200 to 1,300)` if uncertain; `at most 1,234` if nothing is known. */
export function billableText({ low, expected, high }: BillableEstimate): string {
  if (low === 0 && expected === high && high > 0) return `at most ${count(high)}`;
  return low === high ? count(expected) : `about ${count(expected)} (${count(low)} to ${count(high)})`;
}
