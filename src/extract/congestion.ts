import type { Clock } from "../clock.ts";
import { LimitReachedError } from "../errors.ts";
import type { CallReport } from "./call-report.ts";
import { MAX_RETRY_AFTER_MS } from "./retry-after.ts";

/** Time without success at single calls before the quota counts as used up. */
const QUOTA_AFTER_MS = 5 * 60_000;
/** Part of the measured rate that is used, so that jitter doesn't exceed the service's limit. */
const MARGIN = 0.98;
/** Growth of the rate per second; each reduction divides it by four. */
const FIRST_GROWTH = 4;
const LEAST_GROWTH = 0.01;
/** At this growth the limit counts as found. */
const SMALL_GROWTH = 0.02;
/** The rate doesn't grow for this long after the limit was found, or after a 429 that asks to wait. */
const HOLD_MS = 60_000;
/** The service accepts nothing if it rejected this many calls since the last reduction, and no earlier one is open. */
const FEW_REFUSALS = 3;
/** The first calls may arrive in another order. */
const FIRST_BURST_MS = 500;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 5000;
/** A turn that a busy process takes this late doesn't delay the next ones. */
const CATCH_UP_MS = 100;
/** Accepted calls are averaged over this time. */
const AVERAGE_MS = 5000;
/** Starts that are remembered. */
const MOST_STARTS = 4096;

/** Rate of one endpoint: the configured one until a 429, then what the service accepted before it. */
export interface Congestion {
  /** Milliseconds until the next call may start. */
  waitMs(): number;
  /** Uses the turn of the next call. */
  takeTurn(): void;
  /** Records that a call is sent. */
  start(startedAtMs: number): void;
  /** Records the outcome of a call. Returns an error if the quota is used up. */
  report(report: CallReport): LimitReachedError | null;
}

/** Starts with a configured rate, infinite for none. */
export function createCongestion(endpoint: string, maxRate: number, clock: Clock): Congestion {
  /** Calls per second at `growsFromMs`. */
  let rate = maxRate;
  let growth = FIRST_GROWTH;
  let growsFromMs = 0;
  /** Last rate at which a call was accepted. */
  let provenRate = maxRate;
  /** Rate last measured at less than half of the one in use. */
  let foundRate = 0;
  let nextTurnMs = 0;
  /** Starts of calls that were not rejected, or not yet. */
  let starts: number[] = [];
  let firstStartMs: number | null = null;
  /** Start of the call that caused the last reduction, and the rate until then. */
  let reduced: { readonly startedAtMs: number; readonly rate: number } | null = null;
  let slowedAtMs = Number.NEGATIVE_INFINITY;
  let isAccepting = false;
  let refusals = 0;
  let backoffMs = FIRST_BACKOFF_MS;
  /** Start of the period in which single calls were rejected without a success. */
  let refusedSinceMs: number | null = null;

  function currentRate(): number {
    const seconds = Math.max(0, clock.now() - growsFromMs) / 1000;
    return Math.min(maxRate, rate * (1 + growth) ** seconds);
  }

  function pause(ms: number): void {
    nextTurnMs = Math.max(nextTurnMs, clock.now() + ms);
  }

  /** Calls per second that the service accepted before it rejected one: between those of the last second and the average. */
  function acceptedBefore(startedAtMs: number, asksToWait: boolean): number {
    const elapsedMs = startedAtMs - (firstStartMs ?? startedAtMs);
    const endMs = elapsedMs < FIRST_BURST_MS ? slowedAtMs : startedAtMs;
    const countOf = (ms: number) => starts.filter((atMs) => atMs > startedAtMs - ms && atMs <= endMs).length;
    const averageMs = Math.min(AVERAGE_MS, Math.max(1000, elapsedMs));
    const average = (countOf(averageMs) * 1000) / averageMs;
    const last = countOf(1000);
    // After a pause, the last second may have used what the pause saved up.
    return Math.max(1, average, asksToWait ? (last + average) / 2 : last);
  }

  function adoptRate(asksToWait: boolean): void {
    if (reduced === null) return;
    const accepted = acceptedBefore(reduced.startedAtMs, asksToWait);
    if (accepted < reduced.rate / 2) foundRate = accepted;
    // A service that rejects single calls at any rate must not slow the job down for ever.
    rate = Math.max(Math.min(reduced.rate, accepted) * MARGIN, foundRate / 2);
    growsFromMs = clock.now() + (asksToWait || growth <= SMALL_GROWTH ? HOLD_MS : 0);
  }

  function beginRound(): void {
    slowedAtMs = clock.now();
    isAccepting = false;
    refusals = 0;
    reduced = null;
  }

  function reduce(startedAtMs: number, asksToWait: boolean): void {
    beginRound();
    reduced = { startedAtMs, rate: currentRate() };
    growth = Math.max(LEAST_GROWTH, growth / 4);
    adoptRate(asksToWait);
  }

  /** Nothing is accepted, which says nothing about the rate. */
  function probe(): void {
    beginRound();
    if (provenRate < Number.POSITIVE_INFINITY) rate = provenRate;
    refusedSinceMs ??= clock.now();
    pause(backoffMs);
    backoffMs = Math.min(MAX_BACKOFF_MS, 2 * backoffMs);
  }

  function refuse(startedAtMs: number, afterMs: number): void {
    const index = starts.lastIndexOf(startedAtMs);
    if (index >= 0) starts.splice(index, 1);
    pause(afterMs);
    // Concurrent calls are rejected together, which slows down only once.
    if (startedAtMs < slowedAtMs) {
      adoptRate(afterMs > 0);
      return;
    }
    refusals += 1;
    const mayBeAccepting = starts.some((atMs) => atMs >= slowedAtMs && atMs <= startedAtMs);
    const isFirst = mayBeAccepting && rate === maxRate;
    if (afterMs >= MAX_RETRY_AFTER_MS) probe();
    else if (isAccepting || isFirst) reduce(startedAtMs, afterMs > 0);
    else if (!mayBeAccepting && refusals >= FEW_REFUSALS) probe();
  }

  function accept(startedAtMs: number): void {
    if (startedAtMs < slowedAtMs) return;
    provenRate = rate;
    isAccepting = true;
    backoffMs = FIRST_BACKOFF_MS;
    refusedSinceMs = null;
  }

  return {
    waitMs: () => Math.max(0, nextTurnMs - clock.now()),
    takeTurn() {
      const isLate = clock.now() - nextTurnMs > CATCH_UP_MS;
      nextTurnMs = (isLate ? clock.now() : nextTurnMs) + 1000 / currentRate();
      // While nothing is accepted, one call at a time finds out when that changes.
      if (refusedSinceMs !== null) pause(backoffMs);
    },
    start(startedAtMs) {
      firstStartMs ??= startedAtMs;
      starts.push(startedAtMs);
      if (starts.length > 2 * MOST_STARTS) starts = starts.slice(-MOST_STARTS);
    },
    report(report) {
      if (report.kind === "refused") refuse(report.startedAtMs, report.afterMs);
      else if (report.kind !== "not_sent") accept(report.startedAtMs);
      if (refusedSinceMs === null || clock.now() - refusedSinceMs < QUOTA_AFTER_MS) return null;
      return new LimitReachedError(
        "quota",
        `${endpoint}: the service rejected every call (429) for five minutes, so the plan's quota ` +
          "is used up. All answers are kept; run again when the quota is renewed.",
      );
    },
  };
}
