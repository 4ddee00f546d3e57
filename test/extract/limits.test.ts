import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { systemClock } from "../../src/clock.ts";
import { createCongestion, createLimiter, createServiceHealth } from "../../src/extract/limits.ts";
import * as fc from "../support/fast-check.ts";

const never = new AbortController().signal;

/** A clock that a test advances. */
function standingClock(): Clock & { move(ms: number): void } {
  let nowMs = 1_000_000;
  return {
    now: () => nowMs,
    sleep: async () => {
      await new Promise(() => undefined);
    },
    move: (ms) => {
      nowMs += ms;
    },
  };
}

function open(options: Partial<Parameters<typeof createLimiter>[0]> = {}) {
  return createLimiter({ concurrency: 8, requestsPerSecond: null, clock: systemClock, ...options });
}

/** Most starts in any window of this length. */
function busiest(starts: readonly number[], windowMs: number): number {
  return Math.max(
    ...starts.map((at) => starts.filter((other) => other >= at && other < at + windowMs).length),
  );
}

describe("the limiter", () => {
  it("runs no more calls than its concurrency over all endpoints", async () => {
    const limiter = open({ concurrency: 3, endpointRequestsPerSecond: { b: 1000, c: 1000 } });
    let running = 0;
    let most = 0;
    const call = async () => {
      running += 1;
      most = Math.max(most, running);
      await delay(5);
      running -= 1;
    };
    const endpoints = ["a", "b", "c"];
    await Promise.all(
      Array.from({ length: 60 }, (_, i) => limiter.run(endpoints[i % 3] ?? "a", call, never)),
    );
    expect(most).toBe(3);
  });

  it("drops waiting calls at a signal, and lets the others complete", async () => {
    const limiter = open({ concurrency: 1 });
    const stop = new AbortController();
    const first = limiter.run("a", async () => await delay(50, "done"), stop.signal);
    let hasRun = false;
    const second = limiter.run(
      "a",
      async () => {
        hasRun = true;
        await Promise.resolve();
      },
      stop.signal,
    );
    setTimeout(() => {
      stop.abort(new Error("enough"));
    }, 10);
    await expect(second).rejects.toThrow("enough");
    expect(await first).toBe("done");
    await expect(limiter.run("a", async () => await delay(1), stop.signal)).rejects.toThrow("enough");
    expect(hasRun).toBe(false);
  });

  it("delays every call of an endpoint, and of no other, during its pause after a 429", async () => {
    const limiter = open({ concurrency: 4 });
    limiter.report("a", { kind: "refused", startedAtMs: Date.now(), afterMs: 1000 });
    const began = performance.now();
    const ended: string[] = [];
    const call = async (endpoint: string) => {
      await limiter.run(endpoint, async () => await delay(1), never);
      ended.push(endpoint);
    };
    await Promise.all([call("a"), call("b")]);
    expect(ended).toEqual(["b", "a"]);
    expect(performance.now() - began).toBeGreaterThanOrEqual(995);
  });
});

/** Makes calls at these times, in milliseconds from now, and returns the start of each. */
async function startsOf(
  options: Partial<Parameters<typeof createLimiter>[0]>,
  arrivals: readonly number[],
  endpoint = "a",
): Promise<readonly number[]> {
  const limiter = open(options);
  const starts: number[] = [];
  const began = Date.now();
  const call = async () => {
    starts.push(Date.now() - began);
    await Promise.resolve();
  };
  for (const at of arrivals) setTimeout(() => void limiter.run(endpoint, call, never), at);
  await vi.runAllTimersAsync();
  return starts;
}

describe("a rate", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("is kept in any second, not even exceeded by bursts", async () => {
    // Across two seconds, counted from the first call.
    const arrivals = [0, ...Array.from({ length: 39 }, () => 900)];
    const starts = await startsOf({ requestsPerSecond: 20 }, arrivals);
    expect(starts).toHaveLength(40);
    expect(busiest(starts, 1000)).toBe(20);
    // 19 at once after the first, and the last one a second and its margin later.
    expect(starts.at(-1)).toBe(1910);
  });

  it("is kept for any arrival of calls, and fully used", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 4000 }), { minLength: 1, maxLength: 80 }),
        fc.integer({ min: 1, max: 30 }),
        async (arrivals, requestsPerSecond) => {
          const starts = await startsOf({ requestsPerSecond }, arrivals);
          expect(starts).toHaveLength(arrivals.length);
          expect(busiest(starts, 1000)).toBeLessThanOrEqual(requestsPerSecond);
          const wanted = arrivals.toSorted((a, b) => a - b);
          for (const [i, at] of starts.entries()) {
            expect(at).toBe(Math.max(wanted[i] ?? 0, (starts[i - requestsPerSecond] ?? -1010) + 1010));
          }
        },
      ),
      { numRuns: 50 },
    );
  });

  it("is kept where requests start, although some calls are reserved more slowly than others", async () => {
    const limiter = open({ concurrency: 16, requestsPerSecond: 5 });
    const starts: number[] = [];
    const began = Date.now();
    const call = async (reservedInMs: number) => {
      await new Promise((resolve) => setTimeout(resolve, reservedInMs));
      await limiter.send("a", async () => {
        starts.push(Date.now() - began);
        await Promise.resolve();
      });
    };
    for (let i = 0; i < 15; i++) void limiter.run("a", () => call(i < 5 ? 100 : 0), never);
    await vi.runAllTimersAsync();
    expect(starts).toEqual([...Array(5).fill(100), ...Array(5).fill(1110), ...Array(5).fill(2120)]);
  });

  it("may be a fraction of a call per second", async () => {
    const starts = await startsOf({ requestsPerSecond: 2.5 }, [0, 0, 0, 0, 0]);
    expect(starts).toEqual([0, 0, 808, 808, 1616]);
    expect(await startsOf({ requestsPerSecond: 0.5 }, [0, 0, 0])).toEqual([0, 2020, 4040]);
  });

  it("of one endpoint doesn't hold up the others", async () => {
    const limits = { concurrency: 2, endpointRequestsPerSecond: { slow: 2 } };
    const limiter = open(limits);
    const starts: Record<"slow" | "fast", number[]> = { slow: [], fast: [] };
    const began = Date.now();
    const run = (endpoint: "slow" | "fast") =>
      limiter.run(
        endpoint,
        async () => {
          starts[endpoint].push(Date.now() - began);
          await new Promise((resolve) => setTimeout(resolve, 1));
        },
        never,
      );
    for (let i = 0; i < 5; i++) void run("slow");
    for (let i = 0; i < 100; i++) void run("fast");
    await vi.runAllTimersAsync();
    expect(starts.slow).toEqual([0, 0, 1010, 1010, 2020]);
    expect(starts.fast).toHaveLength(100);
    expect(Math.max(...starts.fast)).toBeLessThan(110);
  });

  it("of a path holds for the resources below it", async () => {
    const limiter = open({ concurrency: 2, endpointRequestsPerSecond: { "GET /jobs": 2 } });
    const starts: number[] = [];
    const began = Date.now();
    for (const endpoint of ["GET /jobs", "GET /jobs/{id}", "GET /jobs/{id}/results", "GET /jobs/{id}"]) {
      const call = async () => {
        starts.push(Date.now() - began);
        await Promise.resolve();
      };
      void limiter.run(endpoint, call, never);
    }
    await vi.runAllTimersAsync();
    expect(starts).toEqual([0, 0, 1010, 1010]);
  });
});

it("a call that waits for the rate also waits for a pause that starts in the meantime", async () => {
  const limiter = open({ requestsPerSecond: 2 });
  const began = performance.now();
  const starts: number[] = [];
  const call = async () => {
    starts.push(performance.now() - began);
    await Promise.resolve();
  };
  const calls = Promise.all([1, 2, 3].map(() => limiter.run("a", call, never)));
  limiter.report("a", { kind: "refused", startedAtMs: Date.now(), afterMs: 1500 });
  await calls;
  expect(starts[2]).toBeGreaterThanOrEqual(1495);
});

describe("after 429", () => {
  it("calls refused together halve the speed once, and a later one again", () => {
    const clock = standingClock();
    const congestion = createCongestion("a", 8, clock);
    const together = clock.now();
    clock.move(100);
    for (let i = 0; i < 5; i++) congestion.report({ kind: "refused", startedAtMs: together, afterMs: 1000 });
    expect(congestion.window).toBe(4);
    expect(congestion.pauseMs()).toBe(1000);
    clock.move(1000);
    expect(congestion.pauseMs()).toBe(0);
    congestion.report({ kind: "refused", startedAtMs: clock.now(), afterMs: 1000 });
    expect(congestion.window).toBe(2);
  });

  it("every round of successes makes one call more, up to full speed", () => {
    const clock = standingClock();
    const congestion = createCongestion("a", 4, clock);
    congestion.report({ kind: "refused", startedAtMs: clock.now(), afterMs: 0 });
    expect(congestion.window).toBe(2);
    const windows = Array.from({ length: 12 }, () => {
      congestion.report({ kind: "answered" });
      return congestion.window;
    });
    expect(windows).toEqual([2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]);
  });

  it("five minutes without a success at one call at a time are a used-up quota", () => {
    const clock = standingClock();
    const congestion = createCongestion("POST /v2/enrich", 2, clock);
    const refuse = () => congestion.report({ kind: "refused", startedAtMs: clock.now(), afterMs: 60_000 });
    expect(refuse()).toBeNull();
    expect(congestion.window).toBe(1);
    clock.move(299_999);
    expect(refuse()).toBeNull();
    clock.move(1);
    expect(refuse()).toMatchObject({ name: "LimitReachedError", code: "quota" });
  });

  it("one success restarts the five minutes", () => {
    const clock = standingClock();
    const congestion = createCongestion("a", 1, clock);
    const refuse = () => congestion.report({ kind: "refused", startedAtMs: clock.now(), afterMs: 60_000 });
    refuse();
    clock.move(299_000);
    congestion.report({ kind: "answered" });
    clock.move(10_000);
    expect(refuse()).toBeNull();
    clock.move(300_000);
    expect(refuse()).not.toBeNull();
  });

  it("a wait of five minutes or more reduces the speed to one call at a time immediately", () => {
    const clock = standingClock();
    const congestion = createCongestion("a", 8, clock);
    congestion.report({ kind: "refused", startedAtMs: clock.now(), afterMs: 300_000 });
    expect(congestion.window).toBe(1);
  });
});

describe("a service that is gone", () => {
  it("is given up after 25 seconds when it was never reached", () => {
    const clock = standingClock();
    const health = createServiceHealth(clock, "https://api.example");
    expect(health.report({ kind: "not_sent", code: "ECONNREFUSED" })).toBeNull();
    clock.move(24_999);
    expect(health.report({ kind: "not_sent", code: "ECONNREFUSED" })).toBeNull();
    clock.move(1);
    expect(health.report({ kind: "not_sent", code: "ECONNREFUSED" })).toMatchObject({
      name: "StopRunError",
      code: "service_unreachable",
      message:
        "The service at https://api.example could not be reached; check service.base_url, the network and HTTPS_PROXY " +
        "(ECONNREFUSED).",
    });
  });

  it("is given up after five minutes when it was there before", () => {
    const clock = standingClock();
    const health = createServiceHealth(clock);
    health.report({ kind: "answered" });
    expect(health.report({ kind: "not_sent", code: "ECONNREFUSED" })).toBeNull();
    clock.move(299_999);
    expect(health.report({ kind: "unavailable" })).toBeNull();
    clock.move(1);
    expect(health.report({ kind: "unavailable" })).toMatchObject({ code: "service_unreachable" });
  });

  it("counts as reachable again after its first response", () => {
    const clock = standingClock();
    const health = createServiceHealth(clock);
    health.report({ kind: "unavailable" });
    clock.move(200_000);
    health.report({ kind: "declined" });
    clock.move(200_000);
    expect(health.report({ kind: "unavailable" })).toBeNull();
  });
});
