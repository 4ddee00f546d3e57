import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { systemClock } from "../../src/clock.ts";
import { createCongestion, createLimiter, createServiceHealth } from "../../src/extract/limits.ts";
import * as fc from "../support/fast-check.ts";

const never = new AbortController().signal;
type Health = ReturnType<typeof createServiceHealth>;

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

type Options = Partial<Parameters<typeof createLimiter>[0]>;

function open(options: Options = {}) {
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

/** Makes calls at these times, in milliseconds from now, to these endpoints in turn; returns the start of each. */
async function startsOf(
  options: Options,
  arrivals: readonly number[],
  endpoints: readonly string[] = ["a"],
): Promise<readonly number[]> {
  const limiter = open(options);
  const starts: number[] = [];
  const began = Date.now();
  const call = async () => {
    starts.push(Date.now() - began);
    await Promise.resolve();
  };
  for (const [i, at] of arrivals.entries())
    setTimeout(() => void limiter.run(endpoints[i % endpoints.length] ?? "a", call, never), at);
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

  const jobs = ["GET /jobs", "GET /jobs/{id}", "GET /jobs/{id}/results"];
  const slowFirst = [...Array<string>(5).fill("slow"), ...Array<string>(100).fill("fast")];
  it.each([
    ["may be a fraction of a call", { requestsPerSecond: 2.5 }, ["a"], [0, 0, 808, 808, 1616]],
    ["may be less than a call", { requestsPerSecond: 0.5 }, ["a"], [0, 2020, 4040]],
    [
      "of a path holds for the resources below it",
      { concurrency: 2, endpointRequestsPerSecond: { "GET /jobs": 2 } },
      jobs,
      [0, 0, 1010, 1010],
    ],
    [
      "of one endpoint doesn't hold up the others",
      { concurrency: 2, endpointRequestsPerSecond: { slow: 2 } },
      slowFirst,
      [...Array<number>(102).fill(0), 1010, 1010, 2020],
    ],
  ])("%s", async (_title, limits, endpoints, expected) => {
    const arrivals = expected.map(() => 0);
    expect(await startsOf(limits, arrivals, endpoints)).toEqual(expected);
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

/** Events of a congestion: calls rejected for so many milliseconds, answered ones, and time that passes. */
type Event =
  | { readonly refused: number; readonly startedAgoMs?: number }
  | "answered"
  | { readonly pass: number };

function congestionAfter(window: number, events: readonly Event[]) {
  const clock = standingClock();
  const congestion = createCongestion("a", window, clock);
  const windows: number[] = [];
  let end: ReturnType<typeof congestion.report> = null;
  for (const event of events) {
    if (event === "answered") end = congestion.report({ kind: "answered" });
    else if ("pass" in event) clock.move(event.pass);
    else {
      const startedAtMs = clock.now() - (event.startedAgoMs ?? 0);
      end = congestion.report({ kind: "refused", startedAtMs, afterMs: event.refused });
    }
    windows.push(congestion.window);
  }
  return { windows, pauseMs: congestion.pauseMs(), end: end?.code ?? null };
}

describe("after 429", () => {
  const together: Event = { refused: 1000, startedAgoMs: 100 };
  const minute: Event = { refused: 60_000 };
  const answers = (count: number) => Array.from({ length: count }, (): Event => "answered");
  it.each<[string, number, readonly Event[], object]>([
    [
      "calls rejected together halve the speed once",
      8,
      [{ pass: 100 }, together, together, together],
      { windows: [8, 4, 4, 4], pauseMs: 1000 },
    ],
    [
      "a later one halves it again",
      8,
      [{ refused: 1000 }, { pass: 1000 }, { refused: 1000 }],
      { windows: [4, 4, 2] },
    ],
    ["a pause ends", 8, [{ refused: 1000 }, { pass: 1000 }], { pauseMs: 0 }],
    [
      "every round of successes makes one call more, up to full speed",
      4,
      [{ refused: 0 }, ...answers(12)],
      { windows: [2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4] },
    ],
    ["a wait of five minutes reduces it to single calls", 8, [{ refused: 300_000 }], { windows: [1] }],
    ["less than five minutes of it are no quota", 2, [minute, { pass: 299_999 }, minute], { end: null }],
    [
      "five minutes without a success at one call at a time are one",
      2,
      [minute, { pass: 300_000 }, minute],
      { end: "quota" },
    ],
    [
      "a success restarts the five minutes",
      1,
      [minute, { pass: 299_000 }, "answered", { pass: 10_000 }, minute, { pass: 299_999 }, minute],
      { end: null },
    ],
  ])("%s", (_title, window, events, expected) => {
    expect(congestionAfter(window, events)).toMatchObject(expected);
  });
});

describe("a service that is gone", () => {
  const lost = { kind: "not_sent", code: "ECONNREFUSED" } as const;
  const busy = { kind: "unavailable" } as const;
  it.each<[string, readonly (Parameters<Health["report"]>[0] | number)[], boolean]>([
    ["is waited for less than 25 seconds", [lost, 24_999, lost], false],
    ["is given up after 25 seconds when it was never reached", [lost, 25_000, lost], true],
    [
      "is waited for five minutes when it was there before",
      [{ kind: "answered" }, lost, 299_999, busy],
      false,
    ],
    ["is given up then", [{ kind: "answered" }, lost, 300_000, busy], true],
    ["is there again after any response", [busy, 200_000, { kind: "declined" }, 200_000, busy], false],
  ])("%s", (_title, events, isGivenUp) => {
    const clock = standingClock();
    const health = createServiceHealth(clock, "https://api.example");
    let end: Error | null = null;
    for (const event of events) {
      if (typeof event === "number") clock.move(event);
      else end = health.report(event);
    }
    expect(end !== null).toBe(isGivenUp);
  });

  it("is named in the error, with what to check", () => {
    const clock = standingClock();
    const health = createServiceHealth(clock, "https://api.example");
    health.report(lost);
    clock.move(25_000);
    expect(health.report(lost)).toMatchObject({
      name: "StopRunError",
      code: "service_unreachable",
      message:
        "The service at https://api.example could not be reached; check service.base_url, the network and HTTPS_PROXY " +
        "(ECONNREFUSED).",
    });
  });
});
