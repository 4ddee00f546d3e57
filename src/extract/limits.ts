import PQueue from "p-queue";
import type { Clock } from "../clock.ts";
import type { LimitReachedError, StopRunError } from "../errors.ts";
import type { CallReport } from "./call-report.ts";
import { createCongestion, type Congestion } from "./congestion.ts";
import { createServiceHealth } from "./service-health.ts";

/** How fast the service may be called. */
export interface LimiterOptions {
  /** Most calls in flight, all jobs together. */
  readonly concurrency: number;
  /** Most calls started in any second, all endpoints together that have no rate of their own; null for no cap. */
  readonly requestsPerSecond: number | null;
  /** Endpoints with a rate of their own, by name (`POST /v2/enrich`), in calls per second. */
  readonly endpointRequestsPerSecond?: Readonly<Record<string, number>>;
  readonly clock: Clock;
  /** The service's address, for messages. */
  readonly service?: string;
}

/** Decides when each call of a run may start; one for all jobs of a run. */
export interface Limiter {
  /** Most calls in flight. */
  readonly concurrency: number;
  /** Waits for a turn, then calls. Rejects with the signal's reason when that comes before the turn, not later. */
  run<T>(endpoint: string, call: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Takes note of what a call told; returns an error when it is time to give up. */
  report(endpoint: string, report: CallReport): LimitReachedError | StopRunError | null;
}

/** The p-queue that holds calls to a strict rate: no more than so many in any second, never in bursts. */
function openRate(requestsPerSecond: number | null, concurrency: number): PQueue {
  if (requestsPerSecond === null) return new PQueue({ concurrency });
  // Whole calls: 2.5 a second are 2 in any 800 ms, 0.5 a second one in any 2 s.
  const intervalCap = Math.max(1, Math.floor(requestsPerSecond));
  const interval = Math.ceil((1000 * intervalCap) / requestsPerSecond);
  return new PQueue({ concurrency, intervalCap, interval, strict: true });
}

/** Lets several queues share one number of running tasks: whatever runs in one is room that the others lack. */
function shareConcurrency(queues: readonly PQueue[], concurrency: number): void {
  const share = () => {
    for (const queue of queues.toSorted((a, b) => a.pending - b.pending)) {
      const running = queues.reduce((sum, other) => sum + other.pending, 0);
      const room = queue.pending + concurrency - running;
      if (room < 1) {
        queue.pause();
        continue;
      }
      if (queue.concurrency !== room) queue.concurrency = room;
      if (queue.isPaused) queue.start();
    }
  };
  for (const queue of queues) {
    queue.addEventListener("active", share);
    queue.addEventListener("next", share);
  }
}

/** Aborts with `signal`, but only until `start` was called: what has begun is finished. */
function untilStarted(signal: AbortSignal): {
  readonly signal: AbortSignal;
  start(): void;
} {
  const waiting = new AbortController();
  const onAbort = () => {
    waiting.abort(signal.reason);
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return {
    signal: waiting.signal,
    start: () => {
      signal.removeEventListener("abort", onAbort);
    },
  };
}

const PAUSED = Symbol("paused");

/** What one endpoint has to itself. */
interface Lane {
  /** As many calls as the service takes without refusing. */
  readonly gate: PQueue;
  readonly congestion: Congestion;
  readonly rate: PQueue;
}

/** Makes the limits of one run. */
export function createLimiter(options: LimiterOptions): Limiter {
  const { concurrency, clock } = options;
  const sharedRate = openRate(options.requestsPerSecond, concurrency);
  const ownRates = new Map(
    Object.entries(options.endpointRequestsPerSecond ?? {}).map(([endpoint, perSecond]) => [
      endpoint,
      openRate(perSecond, concurrency),
    ]),
  );
  if (ownRates.size > 0) shareConcurrency([sharedRate, ...ownRates.values()], concurrency);
  const health = createServiceHealth(clock, options.service);
  const lanes = new Map<string, Lane>();

  function laneOf(endpoint: string): Lane {
    let lane = lanes.get(endpoint);
    if (!lane) {
      lane = {
        gate: new PQueue({ concurrency }),
        congestion: createCongestion(endpoint, concurrency, clock),
        rate: ownRates.get(endpoint) ?? sharedRate,
      };
      lanes.set(endpoint, lane);
    }
    return lane;
  }

  async function passLane<T>({ congestion, rate }: Lane, call: () => Promise<T>, signal: AbortSignal) {
    const turn = untilStarted(signal);
    const attempt = async () => {
      // A refusal may have come while this call waited for its turn.
      if (congestion.pauseMs() > 0) return PAUSED;
      turn.start();
      return await call();
    };
    for (;;) {
      for (let ms = congestion.pauseMs(); ms > 0; ms = congestion.pauseMs()) await clock.sleep(ms, signal);
      const result = await rate.add(attempt, { signal: turn.signal });
      if (result !== PAUSED) return result;
    }
  }

  return {
    concurrency,
    async run(endpoint, call, signal) {
      const lane = laneOf(endpoint);
      const turn = untilStarted(signal);
      return await lane.gate.add(
        async () => {
          turn.start();
          return await passLane(lane, call, signal);
        },
        { signal: turn.signal },
      );
    },
    report(endpoint, report) {
      const { gate, congestion } = laneOf(endpoint);
      const quota = congestion.report(report);
      if (gate.concurrency !== congestion.window) gate.concurrency = congestion.window;
      return quota ?? health.report(report);
    },
  };
}
