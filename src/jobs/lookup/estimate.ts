import type { LookupType } from "../../load/due/lookup-spec.ts";

/** Estimated number of billed records of a run. */
export interface BillableEstimate {
  readonly low: number;
  readonly expected: number;
  readonly high: number;
  /** Basis of the estimate, as a phrase. */
  readonly basis: string;
}

/** Two-sided 95 %. */
const Z = 1.959964;

/**
 * 95 % prediction interval for the share of hits in `trials`, from an earlier sample: Wilson's interval with a sample
 * size reduced for the variance of the new trials.
 */
export function predictShare(
  hits: number,
  sample: number,
  trials: number,
): { readonly low: number; readonly high: number } {
  const share = hits / sample;
  const n = (sample * trials) / (sample + trials);
  const z2 = Z * Z;
  const center = (share + z2 / (2 * n)) / (1 + z2 / n);
  const half = (Z / (1 + z2 / n)) * Math.sqrt((share * (1 - share)) / n + z2 / (4 * n * n));
  // Rounding must not exclude the share itself.
  return {
    low: Math.max(0, Math.min(share, center - half)),
    high: Math.min(1, Math.max(share, center + half)),
  };
}

/** Estimates the number of billed records: all addresses, but only matches of resolve and enrich. */
export function estimateBillable(
  type: LookupType,
  toSend: number,
  history: { readonly matchedBefore: number; readonly answeredBefore: number },
): BillableEstimate {
  if (toSend === 0) return { low: 0, expected: 0, high: 0, basis: "nothing to send" };
  if (type === "validate_emails") {
    return { low: toSend, expected: toSend, high: toSend, basis: "every address is billed" };
  }
  const { matchedBefore, answeredBefore } = history;
  if (answeredBefore === 0) {
    return { low: 0, expected: toSend, high: toSend, basis: "no history: assumes that every record matches" };
  }
  const { low, high } = predictShare(matchedBefore, answeredBefore, toSend);
  return {
    low: Math.floor(toSend * low),
    expected: Math.round((toSend * matchedBefore) / answeredBefore),
    high: Math.ceil(toSend * high),
    basis: `match rate of ${countText(answeredBefore, "row")} answered so far`,
  };
}

/** Assumed duration of a full call. */
export const ASSUMED_CALL_SECONDS = 1;

/** Estimates the seconds until all calls are answered, from the rate limit (if any) and the concurrency. */
export function estimateSeconds(
  calls: number,
  bounds: { readonly concurrency: number; readonly requestsPerSecond: number | null },
): number {
  const byConcurrency = (Math.ceil(calls / bounds.concurrency) || 0) * ASSUMED_CALL_SECONDS;
  const byRate = bounds.requestsPerSecond === null ? 0 : calls / bounds.requestsPerSecond;
  return Math.ceil(Math.max(byConcurrency, byRate));
}

/** `1 row`, `1,234 rows`. */
export function countText(count: number, singular: string, plural = `${singular}s`): string {
  return `${figure(count)} ${count === 1 ? singular : plural}`;
}

/** `1,234`, or `about 1,234 (1,200 to 1,300)` if uncertain. */
export function billableText({ low, expected, high }: BillableEstimate): string {
  return low === high ? figure(expected) : `about ${figure(expected)} (${figure(low)} to ${figure(high)})`;
}

function figure(count: number): string {
  return count.toLocaleString("en-US");
}
