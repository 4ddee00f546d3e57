import type { Clock } from "../clock.ts";
import { LimitReachedError } from "../errors.ts";
import type { CallReport } from "./call-report.ts";
import { MAX_RETRY_AFTER_MS } from "./retry-after.ts";

/** How long one call at a time may be refused, without one success, before it counts as a used-up quota. */
const QUOTA_AFTER_MS = 5 * 60_000;

/** How fast one endpoint takes calls: halved by each refusal, one more after each round of successes. */
export interface Congestion {
  /** Calls that may be in flight. */
  readonly window: number;
  /** Milliseconds until the next call may start. */
  pauseMs(): number;
  /** Takes note of a call; returns an error when the quota is used up. */
  report(report: CallReport): LimitReachedError | null;
}

/** Starts at full speed. */
export function createCongestion(endpoint: string, maxWindow: number, clock: Clock): Congestion {
  let window = maxWindow;
  let successes = 0;
  let pausedUntilMs = 0;
  let slowedAtMs = Number.NEGATIVE_INFINITY;
  /** Since when single calls have been refused without a success. */
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
    // Calls that were in flight together are refused together: that is one reason to slow down, not eight.
    if (startedAtMs >= slowedAtMs) {
      // Asked to wait for as long as we ever do, there is no point in finding the right speed step by step.
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
        `${endpoint}: the service refused single calls (429) for five minutes without answering one, so the plan's quota ` +
          "is used up. All that was answered is kept; run again when the quota is renewed.",
      );
    },
  };
}
