import type { Clock } from "../clock.ts";
import { LimitReachedError } from "../errors.ts";
import type { CallReport } from "./call-report.ts";
import { MAX_RETRY_AFTER_MS } from "./retry-after.ts";

/** Time without success at one call at a time before the quota counts as used up. */
const QUOTA_AFTER_MS = 5 * 60_000;

/** Congestion control of one endpoint: each 429 halves the window, each round of successes adds one call. */
export interface Congestion {
  /** Maximum calls in flight. */
  readonly window: number;
  /** Milliseconds until the next call may start. */
  pauseMs(): number;
  /** Records the outcome of a call. Returns an error if the quota is used up. */
  report(report: CallReport): LimitReachedError | null;
}

/** Starts with the maximum window. */
export function createCongestion(endpoint: string, maxWindow: number, clock: Clock): Congestion {
  let window = maxWindow;
  let successes = 0;
  let pausedUntilMs = 0;
  let slowedAtMs = Number.NEGATIVE_INFINITY;
  /** Start of the period in which single calls were rejected without a success. */
  let refusedSinceMs: number | null = null;

  function succeed(): void {
    refusedSinceMs = null;
    successes += 1;
    if (successes >= window && window < maxWindow) {
      window += 1;
      successes = 0;
    }
  }

  function slowDown(startedAtMs: number, afterMs: number): void {
    const nowMs = clock.now();
    pausedUntilMs = Math.max(pausedUntilMs, nowMs + afterMs);
    successes = 0;
    // Concurrent calls are rejected together, which slows down only once.
    if (startedAtMs >= slowedAtMs) {
      // After the maximum Retry-After, continue with single calls.
      window = afterMs >= MAX_RETRY_AFTER_MS ? 1 : Math.max(1, Math.floor(window / 2));
      slowedAtMs = nowMs;
    }
    if (window === 1) refusedSinceMs ??= nowMs;
  }

  return {
    get window() {
      return window;
    },
    pauseMs: () => Math.max(0, pausedUntilMs - clock.now()),
    report(report) {
      if (report.kind === "answered") succeed();
      if (report.kind !== "refused") return null;
      slowDown(report.startedAtMs, report.afterMs);
      if (refusedSinceMs === null || clock.now() - refusedSinceMs < QUOTA_AFTER_MS) return null;
      return new LimitReachedError(
        "quota",
        `${endpoint}: the service rejected every call (429) for five minutes, so the plan's quota ` +
          "is used up. All answers are kept; run again when the quota is renewed.",
      );
    },
  };
}
