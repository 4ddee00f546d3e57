import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { createCongestion } from "../../src/extract/congestion.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import * as fc from "../support/fast-check.ts";

const unlimited = Number.POSITIVE_INFINITY;

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000, loopLimit: 10_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

const clock: Clock = {
  now: () => Date.now(),
  sleep: async (ms) => {
    await new Promise<void>((resolve) => setTimeout(resolve, ms));
  },
};

/** A service that accepts a number of requests per second after a burst of one second, but none in a storm. */
interface Service {
  readonly rate: number;
  readonly latencyMs: number;
  readonly retryAfterMs: number;
  /** Start and end of the storm, in milliseconds from the start. */
  readonly storm?: readonly [number, number];
}

/** Makes calls until some are accepted; returns when each was, in milliseconds from the start, and the number of rejected ones. */
async function callAll({ rate, latencyMs, retryAfterMs, storm }: Service, calls: number) {
  const limiter = createLimiter({ concurrency: 32, requestsPerSecond: null, clock });
  const began = Date.now();
  const acceptedAt: number[] = [];
  let [refused, refusedInStorm, left, available, countedAtMs] = [0, 0, calls, rate, began];
  const accepts = () => {
    available = Math.min(rate, available + ((Date.now() - countedAtMs) * rate) / 1000);
    countedAtMs = Date.now();
    const at = Date.now() - began;
    const isStorm = storm !== undefined && at >= storm[0] && at < storm[1];
    if (isStorm) refusedInStorm += 1;
    if (isStorm || available < 1) return false;
    available -= 1;
    acceptedAt.push(at);
    return true;
  };
  const tryOnce = async () => {
    const startedAtMs = Date.now();
    limiter.start("a", startedAtMs);
    const isAccepted = accepts();
    await clock.sleep(latencyMs);
    return { startedAtMs, isAccepted };
  };
  const work = async () => {
    while (left > 0) {
      left -= 1;
      for (;;) {
        const { startedAtMs, isAccepted } = await limiter.run("a", tryOnce, new AbortController().signal);
        if (isAccepted) limiter.report("a", { kind: "answered", startedAtMs });
        else limiter.report("a", { kind: "refused", startedAtMs, afterMs: retryAfterMs });
        if (isAccepted) break;
        refused += 1;
      }
    }
  };
  const all = Promise.all(Array.from({ length: 32 }, work));
  await vi.runAllTimersAsync();
  await all;
  return { acceptedAt, refused, refusedInStorm, seconds: (Date.now() - began) / 1000 };
}

const anyService = fc.record({
  rate: fc.integer({ min: 4, max: 60 }),
  latencyMs: fc.integer({ min: 50, max: 400 }),
  retryAfterMs: fc.constantFrom(0, 1000),
});

describe("a limit of the service that isn't configured", () => {
  it("is found and used, for any limit and latency, with few rejected calls", async () => {
    await fc.assert(
      fc.asyncProperty(anyService, async (service) => {
        const { seconds, refused } = await callAll(service, service.rate * 60);
        expect(seconds).toBeLessThan(1.08 * (60 + service.latencyMs / 1000));
        // The first burst, and one call in twenty.
        expect(refused).toBeLessThan(2 * 32 + service.rate * 3);
      }),
      { numRuns: 25 },
    );
  });

  it("is used again within ten seconds after six seconds of 429 for every call", async () => {
    await fc.assert(
      fc.asyncProperty(anyService, async (service) => {
        const stormy = { ...service, storm: [15_000, 21_000] } as const;
        const { acceptedAt, refusedInStorm } = await callAll(stormy, service.rate * 65);
        const after = acceptedAt.filter((at) => at >= 31_000 && at < 61_000).length;
        expect(after).toBeGreaterThanOrEqual(Math.floor(0.92 * service.rate * 30));
        expect(refusedInStorm).toBeLessThan(6 * 10 + 2 * service.rate);
      }),
      { numRuns: 25 },
    );
  });
});

/** Congestion control with a second of accepted calls, and a rejected one at its end. */
function congested(accepted: number, afterMs: number, maxRate = unlimited) {
  const congestion = createCongestion("POST /v2/enrich", maxRate, clock);
  const send = () => {
    congestion.takeTurn();
    congestion.start(Date.now());
    return Date.now();
  };
  for (let i = 0; i < accepted; i++) {
    congestion.report({ kind: "answered", startedAtMs: send() });
    vi.advanceTimersByTime(900 / accepted);
  }
  const refuse = (startedAtMs = send()) => congestion.report({ kind: "refused", startedAtMs, afterMs });
  refuse();
  return { congestion, send, refuse };
}

describe("after 429", () => {
  it("every call waits as long as Retry-After asks, then as the calls accepted within a second allow", () => {
    const { congestion, send } = congested(20, 1000);
    expect(congestion.waitMs()).toBe(1000);
    vi.advanceTimersByTime(1000);
    expect(congestion.waitMs()).toBe(0);
    send();
    // 98 % of 20 per second.
    expect(congestion.waitMs()).toBeCloseTo(51.02, 2);
  });

  it("the rate is never higher than the configured one", () => {
    const { congestion, send } = congested(20, 0, 30);
    vi.advanceTimersByTime(3_600_000);
    send();
    expect(congestion.waitMs()).toBeCloseTo(1000 / 30, 2);
  });

  it("calls are sent one at a time, ever less often, while none is accepted", () => {
    const { congestion, refuse } = congested(20, 0);
    vi.advanceTimersByTime(100);
    for (let i = 0; i < 3; i++) refuse();
    const waits = Array.from({ length: 6 }, () => {
      const waitMs = Math.round(congestion.waitMs());
      vi.advanceTimersByTime(waitMs);
      for (let i = 0; i < 3; i++) refuse();
      return waitMs;
    });
    expect(waits.at(-1)).toBe(5000);
    expect(waits).toEqual(waits.toSorted((a, b) => a - b));
  });

  it("five minutes in which no single call is accepted are a used-up quota", () => {
    const congestion = createCongestion("POST /v2/enrich", unlimited, clock);
    const refuse = () => congestion.report({ kind: "refused", startedAtMs: Date.now(), afterMs: 60_000 });
    expect([refuse(), refuse(), refuse()]).toEqual([null, null, null]);
    vi.advanceTimersByTime(299_999);
    expect(refuse()).toBeNull();
    vi.advanceTimersByTime(1);
    expect(refuse()).toMatchObject({ name: "LimitReachedError", code: "quota" });
  });

  it("one success restarts the five minutes", () => {
    const congestion = createCongestion("a", unlimited, clock);
    const refuse = () => congestion.report({ kind: "refused", startedAtMs: Date.now(), afterMs: 60_000 });
    for (let i = 0; i < 3; i++) refuse();
    vi.advanceTimersByTime(299_000);
    congestion.report({ kind: "answered", startedAtMs: Date.now() });
    vi.advanceTimersByTime(10_000);
    expect(refuse()).toBeNull();
    vi.advanceTimersByTime(290_000);
    expect(refuse()).toBeNull();
  });

  it("a wait of five minutes or more means single calls at once", () => {
    const { congestion, send } = congested(20, 300_000);
    expect(congestion.waitMs()).toBe(300_000);
    vi.advanceTimersByTime(300_000);
    send();
    expect(congestion.waitMs()).toBe(1000);
  });
});
