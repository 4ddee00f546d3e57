import type { Clock } from "../clock.ts";
import { StopRunError } from "../errors.ts";
import type { CallReport } from "./call-report.ts";

/** How long to try a service that could never be reached in this run: most likely the address is wrong. */
const UNREACHABLE_AFTER_MS = 25_000;
/** How long to wait for a service to come back that was reached before. */
const GONE_AFTER_MS = 5 * 60_000;

/** Notices that the service is gone, for all jobs of a run. */
export interface ServiceHealth {
  /** Takes note of a call; returns an error when it is time to give up. */
  report(report: CallReport): StopRunError | null;
}

/** Starts out hopeful. `service` is its address, for messages. */
export function createServiceHealth(clock: Clock, service: string | null = null): ServiceHealth {
  let wasReached = false;
  /** Since when no call has succeeded. */
  let failingSinceMs: number | null = null;

  function giveUp(cause: string): StopRunError | null {
    failingSinceMs ??= clock.now();
    const limitMs = wasReached ? GONE_AFTER_MS : UNREACHABLE_AFTER_MS;
    if (clock.now() - failingSinceMs < limitMs) return null;
    const what = wasReached
      ? "did not answer one call for five minutes"
      : "could not be reached at all; check service.base_url and the network between";
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
