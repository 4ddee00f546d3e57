import PQueue from "p-queue";
import type { Clock } from "../clock.ts";
import type { LimitReachedError, StopRunError } from "../errors.ts";
import type { CallReport } from "./call-report.ts";
import { createCongestion, type Congestion } from "./congestion.ts";
import { createServiceHealth } from "./service-health.ts";

/** Options of a limiter. */
export interface LimiterOptions {
  /** Maximum calls in flight of all jobs. */
  readonly concurrency: number;
  /** Maximum calls started per second, for all endpoints without their own rate; null for no limit. */
  readonly requestsPerSecond: number | null;
  /** Calls per second of endpoints with their own rate, by name (`POST /v2/enrich`). */
  readonly endpointRequestsPerSecond?: Readonly<Record<string, number>>;
  readonly clock: Clock;
  /** The service's address, for messages. */
  readonly service?: string;
}

/** Decides when each call may start; one for all jobs of a run. */
export interface Limiter {
  /** Maximum calls in flight. */
  readonly concurrency: number;
  /** Waits for a turn, then calls. Rejects with the signal's reason if aborted before the turn. */
  run<T>(endpoint: string, call: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Records that a call is sent now. */
  start(endpoint: string, startedAtMs: number): void;
  /** Records the outcome of a call. Returns an error if the run or job should stop. */
  report(endpoint: string, report: CallReport): LimitReachedError | StopRunError | null;
}

/** Creates a queue with a strict rate limit: at most this many calls in any second. */
function openRate(requestsPerSecond: number | null, concurrency: number): PQueue {
  if (requestsPerSecond === null) return new PQueue({ concurrency });
  // Converts to whole calls: 2.5 per second is 2 per 800 ms, 0.5 per second is 1 per 2 s.
  const intervalCap = Math.max(1, Math.floor(requestsPerSecond));
  const interval = Math.ceil((1000 * intervalCap) / requestsPerSecond);
  return new PQueue({ concurrency, intervalCap, interval, strict: true });
}

/** Makes several queues share one concurrency limit. */
function shareConcurrency(queues: readonly PQueue[], concurrency: number): void {
  const share = () => {
    for (const queue of queues.toSorted((a, b) => a.pending - b.pending)) {
      const running = queues.reduce((sum, other) => sum + other.pending, 0);
      const free = queue.pending + concurrency - running;
      if (free < 1) {
        queue.pause();
        continue;
      }
      if (queue.concurrency !== free) queue.concurrency = free;
      if (queue.isPaused) queue.start();
    }
  };
  for (const queue of queues) {
    queue.addEventListener("active", share);
    queue.addEventListener("next", share);
  }
}

/** Aborts with `signal` until `start` is called: a call that has started is finished. */
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

/** Limits of one endpoint. */
interface Lane {
  /** Lets one call at a time wait for its turn. */
  readonly turns: PQueue;
  readonly congestion: Congestion;
  readonly rate: PQueue;
}

/** Creates the limiter of a run. */
export function createLimiter(options: LimiterOptions): Limiter {
  const { concurrency, clock } = options;
  const openNamed = (perSecond: number | null) => ({ perSecond, rate: openRate(perSecond, concurrency) });
  const shared = openNamed(options.requestsPerSecond);
  const own = new Map(
    Object.entries(options.endpointRequestsPerSecond ?? {}).map(([endpoint, perSecond]) => [
      endpoint,
      openNamed(perSecond),
    ]),
  );
  if (own.size > 0) {
    shareConcurrency(
      [shared, ...own.values()].map(({ rate }) => rate),
      concurrency,
    );
  }
  const health = createServiceHealth(clock, options.service);
  const lanes = new Map<string, Lane>();

  function laneOf(endpoint: string): Lane {
    let lane = lanes.get(endpoint);
    if (!lane) {
      // A limit covers the resources below its path: `GET /person-search/v0/search-jobs/{segment_id}`.
      const { perSecond, rate } = own.get(endpoint) ?? own.get(endpoint.replace(/\/\{.*$/u, "")) ?? shared;
      const congestion = createCongestion(endpoint, perSecond ?? Number.POSITIVE_INFINITY, clock);
      lane = { turns: new PQueue({ concurrency: 1 }), congestion, rate };
      lanes.set(endpoint, lane);
    }
    return lane;
  }

  /** Waits for the turn of the next call and starts it; resolves when it has started. */
  async function startNext<T>({ congestion, rate }: Lane, call: () => Promise<T>, signal: AbortSignal) {
    const turn = untilStarted(signal);
    for (;;) {
      for (let ms = congestion.waitMs(); ms > 0; ms = congestion.waitMs()) {
        await clock.sleep(Math.ceil(ms), turn.signal);
      }
      const started = Promise.withResolvers<boolean>();
      const attempt = async () => {
        // A 429 may have arrived while this call waited for the configured rate.
        const isInTurn = congestion.waitMs() === 0;
        started.resolve(isInTurn);
        if (!isInTurn) return null;
        congestion.takeTurn();
        turn.start();
        return { value: await call() };
      };
      const ended = rate.add(attempt, { signal: turn.signal });
      ended.catch(() => {
        started.resolve(true);
      });
      if (await started.promise) return { ended };
    }
  }

  return {
    concurrency,
    async run(endpoint, call, signal) {
      const lane = laneOf(endpoint);
      const waiting = untilStarted(signal);
      const { ended } = await lane.turns.add(
        async () => {
          waiting.start();
          return await startNext(lane, call, signal);
        },
        { signal: waiting.signal },
      );
      const result = await ended;
      if (result === null) throw new Error("A call that started has a result.");
      return result.value;
    },
    start(endpoint, startedAtMs) {
      laneOf(endpoint).congestion.start(startedAtMs);
    },
    report(endpoint, report) {
      return laneOf(endpoint).congestion.report(report) ?? health.report(report);
    },
  };
}
