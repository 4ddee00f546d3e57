import { describe, expect, test, vi } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { InterruptedError, StopRunError } from "../../src/errors.ts";
import { createOutageReport, observe } from "../../src/outage-report.ts";
import { createRetryWhileDown } from "../../src/jobs/retry-while-down.ts";

const gone = new StopRunError("database_unreachable", "The warehouse can't be used.");

/** A clock that skips every wait and records it. */
function jumpingClock() {
  const waits: number[] = [];
  let nowMs = 0;
  return {
    waits,
    now: () => nowMs,
    async sleep(milliseconds: number): Promise<void> {
      waits.push(milliseconds);
      nowMs += milliseconds;
      await Promise.resolve();
    },
  };
}

/** Reports of outages by a clock, and the events that they log. */
function reportOf(clock: Clock) {
  const events: string[] = [];
  const note = (_fields: object, event: string) => void events.push(event);
  const log = { debug: note, info: note, warn: note, error: note };
  return { events, outage: createOutageReport({ clock, log, name: "warehouse", subject: "The warehouse" }) };
}

function outageOf(retryForMs: number, signal = new AbortController().signal) {
  const clock = jumpingClock();
  const { events, outage } = reportOf(clock);
  const retryWhileDown = createRetryWhileDown({ clock, outage, signal, retryForMs });
  return { retryWhileDown, clock, events };
}

/** Work that fails this many times before it succeeds. */
function failing(times: number, error: Error = gone) {
  let left = times;
  return async (): Promise<string> => {
    await Promise.resolve();
    left -= 1;
    if (left >= 0) throw error;
    return "done";
  };
}

describe("work at a warehouse that can't be reached", () => {
  test("is retried with growing pauses until it succeeds", async () => {
    const { retryWhileDown, clock, events } = outageOf(300_000);
    expect(await retryWhileDown(failing(8))).toBe("done");
    expect(clock.waits).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
    expect(events).toEqual(["warehouse_unreachable", "warehouse_back"]);
  });

  test("is given up after the time that was allowed, counted by all work together", async () => {
    const { retryWhileDown, clock } = outageOf(5000);
    await expect(retryWhileDown(failing(99))).rejects.toBe(gone);
    expect(clock.waits).toEqual([500, 1000, 2000, 1500]);
    // A wait that all workers shared isn't repeated.
    await expect(retryWhileDown(failing(99))).rejects.toBe(gone);
    expect(clock.waits).toHaveLength(4);
    expect(await retryWhileDown(failing(0))).toBe("done");
  });

  test("is given up too where only this work fails", async () => {
    const { retryWhileDown, clock } = outageOf(5000);
    const both = retryWhileDown(async () => {
      expect(await retryWhileDown(failing(0))).toBe("done");
      return await failing(1)();
    });
    await expect(both).rejects.toBe(gone);
    expect(clock.now()).toBe(5000);
  });

  test("continues immediately when other work has reached the warehouse", async () => {
    // A wait that only another worker can end.
    const sleeping = Promise.withResolvers<void>();
    const clock = {
      now: () => 0,
      sleep: (_milliseconds: number, signal?: AbortSignal) =>
        new Promise<void>((_resolve, reject) => {
          signal?.addEventListener("abort", () => reject(new Error("awake")));
          sleeping.resolve();
        }),
    };
    const { outage } = reportOf(clock);
    const { signal } = new AbortController();
    const retryWhileDown = createRetryWhileDown({ clock, outage, signal, retryForMs: 300_000 });
    const waiting = retryWhileDown(failing(1));
    await sleeping.promise;
    expect(await retryWhileDown(failing(0))).toBe("done");
    expect(await waiting).toBe("done");
  });

  test("is not retried where retries are off", async () => {
    const { retryWhileDown, clock } = outageOf(0);
    await expect(retryWhileDown(failing(1))).rejects.toBe(gone);
    expect(clock.waits).toEqual([]);
  });

  test("stops for a signal, before and during the wait", async () => {
    const stop = new AbortController();
    const { retryWhileDown } = outageOf(300_000, stop.signal);
    const waiting = retryWhileDown(async () => {
      stop.abort();
      return await failing(1)();
    });
    await expect(waiting).rejects.toBeInstanceOf(InterruptedError);
    await expect(retryWhileDown(failing(1))).rejects.toBeInstanceOf(InterruptedError);
    expect(await retryWhileDown(failing(0))).toBe("done");
  });
});

test("any other failure is reported immediately", async () => {
  const { retryWhileDown, clock, events } = outageOf(300_000);
  const full = new StopRunError("disk_full", "The disk is full.");
  await expect(retryWhileDown(failing(1, full))).rejects.toBe(full);
  expect([clock.waits, events]).toEqual([[], []]);
});

test("a connection that fails and isn't tried again is not reported later", async () => {
  vi.useFakeTimers();
  try {
    const { events, outage } = reportOf({ now: () => Date.now(), sleep: async () => {} });
    const fail = () => Promise.reject(gone);
    await expect(observe(outage, () => "ECONNREFUSED", fail, 300_000)).rejects.toBe(gone);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(events).toEqual([]);
    // A later failure is another outage.
    await vi.advanceTimersByTimeAsync(3_600_000);
    await expect(observe(outage, () => "ECONNREFUSED", fail, 300_000)).rejects.toBe(gone);
    expect(events).toEqual([]);
  } finally {
    vi.useRealTimers();
  }
});
