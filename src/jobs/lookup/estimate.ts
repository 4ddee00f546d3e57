import { count, countText } from "../../figures.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";
import type { FirstStratum, RandomSample, Sample } from "../../load/due/strata.ts";

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

/** Estimates the number of billed records of an e-mail validation. */
export function estimateAddresses(toSend: number): BillableEstimate {
  return { low: toSend, expected: toSend, high: toSend, basis: "every address is billed" };
}

/** Records to send of about the same match rate. */
export interface EstimatePart {
  readonly records: number;
  /** Expected share of matches. */
  readonly share: number;
  /** Answered records of these strata, a random part of the same rows; null if there are none, or too few. */
  readonly sample: (Sample & { readonly strata: readonly FirstStratum[] }) | null;
  /** Singular and plural, for a part without a sample. */
  readonly noun: readonly [one: string, many: string];
}

/**
 * Estimates the number of matches, which are billed. The range holds in at least 95 % of cases: each part contributes its
 * interval, or none to all of its records if it has no sample.
 */
export function estimateMatches(
  parts: readonly EstimatePart[],
  { answeredBefore, strata }: Pick<LookupCounts, "answeredBefore" | "strata">,
): BillableEstimate {
  let [low, expected, high] = [0, 0, 0];
  for (const { records, share, sample } of parts) {
    expected += records * share;
    const range = sample ? predictShare(sample.matched, sample.records, records) : { low: 0, high: 1 };
    low += Math.floor(records * range.low);
    high += Math.ceil(records * range.high);
  }
  let basis = basisOf(parts, strata.sample);
  if (parts.length === 0) basis = "nothing to send";
  else if (answeredBefore === 0) basis = "no history: assumes that every record matches";
  return { low, expected: Math.round(expected), high, basis };
}

function basisOf(parts: readonly EstimatePart[], sample: RandomSample | null): string {
  const strata = new Set(parts.flatMap((part) => part.sample?.strata ?? []));
  const sampled = [...strata].reduce((sum, name) => sum + (sample?.strata[name]?.records ?? 0), 0);
  const interval = `95 % interval from ${countText(sampled, "record")} answered so far`;
  const unsampled = parts.filter(({ sample }) => sample === null);
  const nouns = new Map(unsampled.map(({ noun }) => [noun[1], noun]));
  const rest = [...nouns.values()].map(([one, many]) => {
    const same = unsampled.filter(({ noun }) => noun[1] === many);
    const records = same.reduce((sum, part) => sum + part.records, 0);
    return `none to all of ${countText(records, one, many)}`;
  });
  return [...(unsampled.length < parts.length ? [interval] : []), ...rest].join(", ");
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
