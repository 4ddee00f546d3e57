import { limitText } from "../../advice.ts";
import type { Config } from "../../config/config.ts";
import { count, countText, durationText } from "../../figures.ts";
import type { Cap } from "./lookup-spec.ts";
import { type LookupJobConfig, lookupOf } from "./lookup-types.ts";
import { billedNoun, costText, estimateCost, priceOf } from "../price.ts";
import type {
  DueGroups as CountedGroups,
  GroupAnswers,
  LookupCounts,
  MatchHistory,
} from "../../load/lookups/counts.ts";

export interface BillableEstimate {
  readonly low: number;
  readonly expected: number;
  readonly high: number;
  /** Basis of the estimate, as a phrase. */
  readonly basis: string;
}

/** Unit of billing: each record or address sent, or each match. */
type Billed = "record" | "address" | "match";

/** Distinct records to send, by groups of about the same match rate. */
export interface DueGroups extends CountedGroups {
  /** Records that an earlier job of the same run resolves, whether they get a PID or not. */
  readonly waiting: number;
}

interface EstimateOptions {
  /** True if `order_by` chose the answered records, so that they are no sample of the others. */
  readonly isOrdered: boolean;
  /** Maximum number of records to send; infinite without one. */
  readonly most?: number;
}

/** Records with the same expected share of matches. */
interface MatchGroup {
  readonly records: number;
  readonly share: number;
  /** Number of answers that the share is known from. */
  readonly answered: number;
  /** Groups of the history that these answers belong to; empty for records sent again. */
  readonly from: readonly GroupAnswers[];
}

/** Fewer answers support no interval. */
const LEAST_ANSWERS = 30;

/**
 * Estimates the number of billed records. The range holds in at least 9 of 10 cases: each group contributes an interval, or none
 * to all of its records if too few were answered.
 */
export function estimateBillable(
  billed: Billed,
  due: DueGroups,
  history: MatchHistory,
  { isOrdered, most = Number.POSITIVE_INFINITY }: EstimateOptions,
): BillableEstimate {
  const groups = matchGroupsOf(due, history);
  const total = Math.min(most, sumOf(groups));
  if (total === 0) return { low: 0, expected: 0, high: 0, basis: "nothing to send" };
  if (billed !== "match") {
    return { low: total, expected: total, high: total, basis: `every ${billed} is billed` };
  }
  const parts = total < sumOf(groups) ? [mixtureOf(groups, total)] : groups;
  let [low, expected, high] = [0, 0, 0];
  for (const { records, share, answered } of parts) {
    const range = answered < LEAST_ANSWERS ? { low: 0, high: 1 } : predictShare(share, answered, records);
    low += Math.floor(records * range.low);
    expected += records * share;
    high += Math.ceil(records * range.high);
  }
  return { low, expected: Math.round(expected), high, basis: basisOf(parts, history, isOrdered) };
}

function matchGroupsOf(
  { sentAgain, withPid, others, waiting }: DueGroups,
  history: MatchHistory,
): readonly MatchGroup[] {
  const all = {
    answered: history.withPid.answered + history.others.answered,
    matched: history.withPid.matched + history.others.matched,
  };
  const groupOf = (records: number, own: GroupAnswers, from: readonly GroupAnswers[]): MatchGroup => {
    const { answered, matched } = own.answered > 0 ? own : all;
    // Without history, the most that can be billed.
    return { records, share: answered === 0 ? 1 : matched / answered, answered: own.answered, from };
  };
  return [
    asBefore(sentAgain.matched, 1),
    asBefore(sentAgain.unmatched, 0),
    groupOf(withPid, history.withPid, [history.withPid]),
    groupOf(others, history.others, [history.others]),
    groupOf(waiting, all, [history.withPid, history.others]),
  ].filter(({ records }) => records > 0);
}

/**
 * Records that are expected to end as before. How often an outcome changes isn't stored; few do, so the range is the one after 30
 * records that all ended as before: up to 12% of many may end otherwise, and more of a few.
 */
function asBefore(records: number, share: 0 | 1): MatchGroup {
  return { records, share, answered: LEAST_ANSWERS, from: [] };
}

/** Part of all groups that a maximum lets through, in unknown proportions. It is known no better than its least known group. */
function mixtureOf(parts: readonly MatchGroup[], records: number): MatchGroup {
  return {
    records,
    share: parts.reduce((sum, part) => sum + part.share * part.records, 0) / sumOf(parts),
    answered: Math.min(...parts.map(({ answered }) => answered)),
    from: parts.flatMap(({ from }) => from),
  };
}

function basisOf(
  parts: readonly MatchGroup[],
  { withPid, others }: MatchHistory,
  isOrdered: boolean,
): string {
  const known = parts.filter(({ answered }) => answered >= LEAST_ANSWERS);
  const again = known.filter(({ from }) => from.length === 0);
  const unknown = parts.filter((part) => !known.includes(part));
  if (unknown.length === parts.length && withPid.answered + others.answered === 0) {
    return "no history yet, so every record is assumed to match";
  }
  const used = new Set(known.flatMap(({ from }) => from));
  const answers = [...used].reduce((sum, { answered }) => sum + answered, 0);
  const ordered = isOrdered ? ", which order_by chose, so they may not represent the rest" : "";
  return [
    ...(answers === 0
      ? []
      : [`95% interval from ${countText(answers, "response")} of the last 90 days${ordered}`]),
    ...(again.length === 0
      ? []
      : [`${countText(sumOf(again), "record")} sent again, expected to match as before`]),
    ...(unknown.length === 0
      ? []
      : [`between 0 and ${countText(sumOf(unknown), "record")} with too little history`]),
  ].join("; ");
}

function sumOf(parts: readonly Pick<MatchGroup, "records">[]): number {
  return parts.reduce((sum, { records }) => sum + records, 0);
}

const Z = 1.959964;

/**
 * 95% prediction interval for the share of matches among `trials` records, from the share among earlier answers: Wilson's
 * interval with a number of answers reduced for the variance of the new trials.
 */
function predictShare(
  share: number,
  answered: number,
  trials: number,
): { readonly low: number; readonly high: number } {
  const n = (answered * trials) / (answered + trials);
  const z2 = Z * Z;
  const center = (share + z2 / (2 * n)) / (1 + z2 / n);
  const half = (Z / (1 + z2 / n)) * Math.sqrt((share * (1 - share)) / n + z2 / (4 * n * n));
  // Rounding must not exclude the share itself.
  return {
    low: Math.max(0, Math.min(share, center - half)),
    high: Math.min(1, Math.max(share, center + half)),
  };
}

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

/** `1,234`; `about 1,234 (1,200 to 1,300)` if uncertain; `up to 1,234` if nothing is known. */
export function billableText({ low, expected, high }: BillableEstimate): string {
  if (low === 0 && expected === high && high > 0) return `up to ${count(high)}`;
  return low === high ? count(expected) : `about ${count(expected)} (${count(low)} to ${count(high)})`;
}

/**
 * Predicts calls, billed records and duration.
 * @param given.cap maximum records to send; null for no limit
 * @param given.toCome records that become due during the run: their rows wait for an earlier job of the same run
 * @param given.billed records billed in the month before
 */
export function forecastOf(
  config: Pick<Config, "service" | "prices">,
  job: LookupJobConfig,
  counts: LookupCounts,
  given: { readonly cap: Cap | null; readonly billed: number; readonly toCome?: number },
) {
  const { cap, toCome = 0 } = given;
  const { endpoint } = lookupOf(job);
  const { concurrency, limits, requestsPerSecond } = config.service;
  const toSend = Math.min(counts.toSend + toCome, cap?.records ?? Number.POSITIVE_INFINITY);
  const calls = Math.ceil(toSend / endpoint.maxRecords);
  const groups = { ...(toCome === 0 ? counts.groups.toSend : counts.groups.due), waiting: toCome };
  const price = priceOf(config, job.type);
  const billable = estimateBillable(billedNoun(job.type, price?.per ?? null), groups, counts.history, {
    isOrdered: job.input.orderBy !== null,
    ...(cap === null ? {} : { most: cap.records }),
  });
  const rest = `, including ${countText(toCome, "record")} that ${toCome === 1 ? "waits" : "wait"} for ${job.pidFrom ?? "another job"}`;
  return {
    /** Distinct records to send. */
    records: toSend,
    calls,
    billable: { ...billable, basis: toCome === 0 ? billable.basis : billable.basis + rest },
    /** Null without a price. */
    cost: price && estimateCost(billable, price, given.billed),
    seconds: estimateSeconds(calls, {
      concurrency,
      requestsPerSecond: limits[endpoint.path]?.requestsPerSecond ?? requestsPerSecond,
    }),
  };
}

/** Forecast as one line for the user; `plan` has the details. */
export function forecastText(
  job: LookupJobConfig,
  counts: LookupCounts,
  { calls, billable, cost, seconds }: ReturnType<typeof forecastOf>,
  cap: Cap | null,
): string {
  const text = (count: number) =>
    job.type === "validate_emails" ? countText(count, "address", "addresses") : countText(count, "row");
  const later =
    counts.remaining > 0 && cap
      ? `; ${text(counts.remaining)} remaining (stops at ${limitText(cap.limitedBy)})`
      : "";
  if (counts.toSend === 0) {
    return `${job.name}: ${later === "" ? `nothing is due among ${text(counts.read)}` : `nothing to send${later}`}`;
  }
  const sending = `${countText(counts.toSend, "record")} to send in ${countText(calls, "call")}`;
  const priced = cost ? `, ${costText(cost)}` : "";
  return `${job.name}: ${sending}, ${billableText(billable)} billed${priced}, about ${durationText(seconds)}${later}`;
}
