import PQueue from "p-queue";
import type { Clock } from "../clock.ts";
import { LimitReachedError, StopRunError } from "../errors.ts";
import { connectHint } from "../http-agent.ts";
import { type Log, silentLog } from "../log.ts";
import { createOutageReport } from "../outage-report.ts";
import { READ_TIMEOUT_MS } from "./http-client.ts";
import { MAX_RETRY_AFTER_MS } from "./retry.ts";

/** Outcome of a call, to adjust rates and detect outages. */
export type CallReport =
  | { readonly kind: "answered" }
  /** Another 4xx: the service works but rejected this request. */
  | { readonly kind: "declined" }
  /** 429: too fast, or the quota is used up. */
  | { readonly kind: "refused"; readonly startedAtMs: number; readonly afterMs: number }
  /** 503. */
  | { readonly kind: "unavailable" }
  | { readonly kind: "not_sent"; readonly code: string }
  /** Sent, but without a complete and readable response. */
  | { readonly kind: "lost" }
  /** Anything else: the service responded. */
  | { readonly kind: "other" };

interface LimiterOptions {
  /** Maximum calls in flight of all jobs. */
  readonly concurrency: number;
  /** Maximum calls started per second, for all endpoints without their own rate; null for no limit. */
  readonly requestsPerSecond: number | null;
  /** Calls per second of endpoints with their own rate, by name (`POST /v2/enrich`). */
  readonly endpointRequestsPerSecond?: Readonly<Record<string, number>>;
  readonly clock: Clock;
  /** The service's address, for messages. */
  readonly service?: string;
  /** Receives reports of a service that doesn't respond. */
  readonly log?: Log;
}

export type Limiter = ReturnType<typeof createLimiter>;

/** Share by which intervals are longer, since requests don't all take equally long to reach the service. */
const MARGIN = 0.01;

/** Limit of calls per second: at most this many in any second. */
interface Rate {
  /** Turns, in which calls are reserved. */
  readonly turns: PQueue;
  /** Starts of requests, which reservations delay by different times. */
  readonly starts: PQueue;
}

function openRate(requestsPerSecond: number | null): Rate {
  if (requestsPerSecond === null) return { turns: new PQueue(), starts: new PQueue() };
  // Converts to whole calls: 2.5 per second is 2 per 800 ms, 0.5 per second is 1 per 2 s.
  const intervalCap = Math.max(1, Math.floor(requestsPerSecond));
  const interval = Math.ceil((1000 * intervalCap * (1 + MARGIN)) / requestsPerSecond);
  const limit = { intervalCap, interval, strict: true };
  return { turns: new PQueue(limit), starts: new PQueue(limit) };
}

/** Aborts with `signal` until `start` is called: a call that has started is finished. */
function untilStarted(signal: AbortSignal) {
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

interface Lane {
  /** Limits the calls in flight to the congestion window. */
  readonly gate: PQueue;
  readonly congestion: ReturnType<typeof createCongestion>;
  readonly rate: Rate;
}

/** Makes a limiter, which decides when each call may start; one for all jobs of a run. */
export function createLimiter(options: LimiterOptions) {
  const { concurrency, clock } = options;
  /** Calls in flight, of all endpoints. */
  const slots = new PQueue({ concurrency });
  const sharedRate = openRate(options.requestsPerSecond);
  const ownRates = new Map(
    Object.entries(options.endpointRequestsPerSecond ?? {}).map(([name, rate]) => [name, openRate(rate)]),
  );
  const health = createServiceHealth(clock, options.service, options.log);
  const lanes = new Map<string, Lane>();

  function laneOf(endpoint: string): Lane {
    let lane = lanes.get(endpoint);
    if (!lane) {
      lane = {
        gate: new PQueue({ concurrency }),
        congestion: createCongestion(endpoint, concurrency, clock),
        // A limit covers the resources below its path: `GET /person-search/v0/search-jobs/{segment_id}`.
        rate: ownRates.get(endpoint) ?? ownRates.get(endpoint.replace(/\/\{.*$/u, "")) ?? sharedRate,
      };
      lanes.set(endpoint, lane);
    }
    return lane;
  }

  return {
    /** Maximum calls in flight. */
    concurrency,
    /** Waits for a turn, then calls. Rejects with the signal's reason if aborted before the turn. */
    async run<T>(endpoint: string, call: () => Promise<T>, stop: AbortSignal): Promise<T> {
      const { gate, congestion, rate } = laneOf(endpoint);
      const { signal, start } = untilStarted(stop);
      const attempt = async () => {
        // A 429 may have arrived while this call waited.
        if (congestion.pauseMs() > 0) return PAUSED;
        start();
        return await call();
      };
      const pass = async () => {
        for (;;) {
          for (let ms = congestion.pauseMs(); ms > 0; ms = congestion.pauseMs())
            await clock.sleep(ms, signal);
          const result = await rate.turns.add(() => slots.add(attempt, { signal }), { signal });
          if (result !== PAUSED) return result;
        }
      };
      return await gate.add(pass, { signal });
    },
    /** Starts the request of a call that has its turn: at once, unless earlier ones of the last second started late. */
    send: <T>(endpoint: string, request: () => Promise<T>): Promise<T> =>
      laneOf(endpoint).rate.starts.add(async () => {
        const ended = health.started();
        try {
          return await request();
        } finally {
          ended();
        }
      }),
    /** Records the outcome of a call. Returns an error if the run or job should stop. */
    report(endpoint: string, report: CallReport): LimitReachedError | StopRunError | null {
      const { gate, congestion } = laneOf(endpoint);
      const quota = congestion.report(report);
      if (gate.concurrency !== congestion.window) gate.concurrency = congestion.window;
      const gone = health.report(report);
      return quota ?? gone;
    },
  };
}

/** Time without success at one call at a time before the quota counts as used up. */
const QUOTA_AFTER_MS = 5 * 60_000;

/** Congestion control of one endpoint: each 429 halves the window, each round of successes adds one call. Starts with the maximum. */
export function createCongestion(endpoint: string, maxWindow: number, clock: Clock) {
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
    /** Maximum calls in flight. */
    get window() {
      return window;
    },
    /** Milliseconds until the next call may start. */
    pauseMs: () => Math.max(0, pausedUntilMs - clock.now()),
    /** Returns an error if the quota is used up. */
    report(report: CallReport): LimitReachedError | null {
      if (report.kind === "answered") succeed();
      if (report.kind !== "refused") return null;
      slowDown(report.startedAtMs, report.afterMs);
      if (refusedSinceMs === null || clock.now() - refusedSinceMs < QUOTA_AFTER_MS) return null;
      return new LimitReachedError(
        "quota",
        `${endpoint}: the service rejected every call (429) for five minutes, so the plan's quota ` +
          "is used up. All responses are kept; run again when the quota is renewed.",
      );
    },
  };
}

/** Time limit for a service that was never reached in this run: the address is probably wrong. */
const UNREACHABLE_AFTER_MS = 25_000;
/** Time limit for a service that was reached before. */
const GONE_AFTER_MS = 5 * 60_000;

/** Detects an unavailable service, for all jobs of a run, and reports it. `service` is its address, for messages. */
export function createServiceHealth(clock: Clock, service: string | null = null, log: Log = silentLog) {
  const subject = `The service${service === null ? "" : ` at ${service}`}`;
  const outage = createOutageReport({ clock, log, name: "service", subject });
  let wasReached = false;
  /** Start of the period without a successful call. */
  let failingSinceMs: number | null = null;
  /** Requests without a response yet, oldest first. */
  const awaited = new Set<{ readonly sinceMs: number }>();
  /** Start of the period without a response; null if none is awaited. */
  let silentSinceMs: number | null = null;
  /** Status or code that the last call got instead of a response; null for none yet. */
  let cause: string | null = null;

  const limitMs = () => (wasReached ? GONE_AFTER_MS : UNREACHABLE_AFTER_MS);

  function reportSilence(pauseMs = READ_TIMEOUT_MS): void {
    if (silentSinceMs === null) return;
    const [oldest] = awaited;
    const untilMs =
      failingSinceMs === null ? (oldest?.sinceMs ?? clock.now()) + pauseMs : failingSinceMs + limitMs();
    const isWaiting = failingSinceMs === null;
    outage.lasts({ sinceMs: silentSinceMs, untilMs, isWaiting, cause });
  }

  function giveUp(code: string): StopRunError | null {
    cause = code;
    failingSinceMs ??= clock.now();
    silentSinceMs ??= failingSinceMs;
    if (clock.now() - failingSinceMs < limitMs()) {
      reportSilence();
      return null;
    }
    outage.stop();
    const what = wasReached
      ? "did not respond to any call for five minutes"
      : `could not be reached; ${connectHint(code, "service.ca") ?? "check service.base_url, the network and HTTPS_PROXY"}`;
    const next = wasReached ? " Run again when it is up." : "";
    return new StopRunError("service_unreachable", `${subject} ${what} (${code}).${next}`);
  }

  function responded(): void {
    cause = null;
    silentSinceMs = awaited.size > 0 ? clock.now() : null;
    outage.back();
    reportSilence();
  }

  return {
    /** Records the start of a request; call the returned function at its end. */
    started(): () => void {
      const request = { sinceMs: clock.now() };
      awaited.add(request);
      silentSinceMs ??= request.sinceMs;
      reportSilence();
      return () => awaited.delete(request);
    },
    /** Returns an error if the run should stop. */
    report(report: CallReport): StopRunError | null {
      if (report.kind === "not_sent") return giveUp(report.code);
      wasReached = true;
      if (report.kind === "unavailable") return giveUp("503");
      if (report.kind === "answered" || report.kind === "declined") failingSinceMs = null;
      if (report.kind === "refused") {
        cause = "429";
        reportSilence(report.afterMs);
      } else if (report.kind !== "lost") responded();
      // Retried within seconds, or not at all.
      else if (awaited.size === 0) outage.stop();
      return null;
    },
  };
}
