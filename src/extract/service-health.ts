import type { Clock } from "../clock.ts";
import { StopRunError } from "../errors.ts";
import type { CallReport } from "./call-report.ts";

/** Time limit for a service that was never reached in this run: the address is probably wrong. */
const UNREACHABLE_AFTER_MS = 25_000;
/** Time limit for a service that was reached before. */
const GONE_AFTER_MS = 5 * 60_000;

/** Detects an unavailable service, for all jobs of a run. */
export interface ServiceHealth {
  /** Records the outcome of a call. Returns an error if the run should stop. */
  report(report: CallReport): StopRunError | null;
}

/** Starts with a healthy service. `service` is its address, for messages. */
export function createServiceHealth(clock: Clock, service: string | null = null): ServiceHealth {
  let wasReached = false;
  /** Start of the period without a successful call. */
  let failingSinceMs: number | null = null;

  function giveUp(cause: string): StopRunError | null {
    failingSinceMs ??= clock.now();
    const limitMs = wasReached ? GONE_AFTER_MS : UNREACHABLE_AFTER_MS;
    if (clock.now() - failingSinceMs < limitMs) return null;
    const what = wasReached
      ? "did not answer any call for five minutes"
      : "could not be reached; check service.base_url and the network";
    return new StopRunError(
      "service_unreachable",
      `The service${service === null ? "" : ` at ${service}`} ${what} (${cause}).`,
    );
  }

  return {
    report(report) {
      if (report.kind === "not_sent") return giveUp(report.code);
      wasReached = true;
      if (report.kind === "unavailable") return giveUp("503");
      if (report.kind === "answered" || report.kind === "declined") failingSinceMs = null;
      return null;
    },
  };
}
