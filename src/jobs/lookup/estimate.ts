import type { LookupType } from "../../load/lookup.ts";

/** How many records of a run will be billed. */
export interface BillableEstimate {
  readonly low: number;
  readonly expected: number;
  readonly high: number;
  /** What the figures rest on, as a phrase. */
  readonly basis: string;
}

/** Two-sided 95 %. */
const Z = 1.959964;

/**
 * The range in which a share of `trials` will lie with 95 %, judged from an earlier sample: Wilson's interval, with the
 * sample size made smaller for the chance that is in the new trials themselves.
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
  // The bounds keep rounding from putting the share itself outside.
  return {
    low: Math.max(0, Math.min(share, center - half)),
    high: Math.min(1, Math.max(share, center + half)),
  };
}

/** How many of the records to send will be billed: all addresses, but only matches of resolve and enrich. */
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
    return { low: 0, expected: toSend, high: toSend, basis: "no history: as if every record matched" };
  }
  const { low, high } = predictShare(matchedBefore, answeredBefore, toSend);
  return {
    low: Math.floor(toSend * low),
    expected: Math.round((toSend * matchedBefore) / answeredBefore),
    high: Math.ceil(toSend * high),
    basis: `match rate of ${countText(answeredBefore, "row")} answered before`,
  };
}

/** How long a full call is taken to last as long as nothing is known. */
export const ASSUMED_CALL_SECONDS = 1;

/** Seconds until all calls are answered: bound by the rate, if there is one, and by how many may be in flight. */
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

/** `1,234`, or `about 1,234 (1,200 to 1,300)` where it isn't certain. */
export function billableText({ low, expected, high }: BillableEstimate): string {
  return low === high ? figure(expected) : `about ${figure(expected)} (${figure(low)} to ${figure(high)})`;
}

function figure(count: number): string {
  return count.toLocaleString("en-US");
}
