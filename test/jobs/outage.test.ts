import { describe, expect, test, vi } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { InterruptedError } from "../../src/errors.ts";
import { createOutageReport, observe } from "../../src/outage-report.ts";
import { retryWhileDown } from "../../src/jobs/retry-while-down.ts";
import type { Db } from "../../src/load/db/db.ts";
import { explainFailure } from "../../src/load/db/failures.ts";
import { configOf, enrichOnly, jobOf, repeats, startWorld } from "./world.ts";

/** Error of a database that refuses connections. */
const downOf = (path: string) =>
  explainFailure(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }), {
    name: path,
    path,
  }) as Error;

const gone = downOf("warehouse.url");

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

/** Work at a database that waits out outages. */
function outageOf<C extends Clock>(retryForMs: number, clock: C, signal = new AbortController().signal) {
  const { events, outage } = reportOf(clock);
  const db = { outage, snapshot: (work: () => unknown) => work() };
  // Only these members are used.
  const waiting = retryWhileDown(db as unknown as Db, { clock, signal, retryForMs });
  return { work: (work: () => Promise<string>) => waiting.snapshot(work), clock, events };
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
    const { work, clock, events } = outageOf(300_000, jumpingClock());
    expect(await work(failing(8))).toBe("done");
    expect(clock.waits).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
    expect(events).toEqual(["warehouse_unreachable", "warehouse_back"]);
  });

  test("is given up after the time that was allowed, counted by all work together, or where only this work fails", async () => {
    const { work, clock } = outageOf(5000, jumpingClock());
    await expect(work(failing(99))).rejects.toBe(gone);
    expect(clock.waits).toEqual([500, 1000, 2000, 1500]);
    // A wait that all workers shared isn't repeated.
    await expect(work(failing(99))).rejects.toBe(gone);
    expect(clock.waits).toHaveLength(4);
    const both = work(async () => {
      expect(await work(failing(0))).toBe("done");
      return await failing(1)();
    });
    await expect(both).rejects.toBe(gone);
    expect(clock.now()).toBe(10_000);
  });

  test("continues immediately when other work has reached the warehouse", async () => {
    // A wait that only another worker can end.
    const sleeping = Promise.withResolvers<void>();
    const { work } = outageOf(300_000, {
      now: () => 0,
      sleep: (_milliseconds: number, signal?: AbortSignal) =>
        new Promise<void>((_resolve, reject) => {
          signal?.addEventListener("abort", () => reject(new Error("awake")));
          sleeping.resolve();
        }),
    });
    const waiting = work(failing(1));
    await sleeping.promise;
    expect(await work(failing(0))).toBe("done");
    expect(await waiting).toBe("done");
  });

  test("stops for a signal, before and during the wait; any other failure is reported immediately", async () => {
    const stop = new AbortController();
    const { work, clock, events } = outageOf(300_000, jumpingClock(), stop.signal);
    // Not an outage of the warehouse, of which one would be informed meanwhile.
    for (const other of [new Error("no room"), downOf("connections.crm.url")])
      await expect(work(failing(1, other))).rejects.toBe(other);
    expect([clock.waits, events]).toEqual([[], []]);
    const waiting = work(async () => {
      stop.abort();
      return await failing(1)();
    });
    await expect(waiting).rejects.toBeInstanceOf(InterruptedError);
    await expect(work(failing(1))).rejects.toBeInstanceOf(InterruptedError);
    expect(await work(failing(0))).toBe("done");
  });
});

test("a lookup that loses every second transaction, from the reading of its input on, sends each record once", async () => {
  const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
  const { db } = world.warehouse;
  let tries = 0;
  const transaction = async (...args: readonly unknown[]) => {
    // The first one with a run begins it, before the job waits for anything.
    if (args.length === 2 && ++tries % 2 === 0) throw gone;
    // The overloads of Db differ only in their arguments.
    return (db.transaction as (...all: readonly unknown[]) => unknown)(...args);
  };
  const report = await world.run({}, { db: { ...db, transaction } as Db });
  expect(jobOf(report, "enrich_customers")).toMatchObject({ status: "succeeded", records_remaining: 0 });
  expect([tries > 8, await repeats(world)]).toEqual([true, { received: 0, billed: 0 }]);
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
