import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { idsExcept, runLookup, someItems } from "./run-lookup.ts";
import { answerAll, type Reply, send } from "./scripted-service.ts";
import { has, look, serve, sizesOf } from "./look.ts";

/** A plan that covers this many more records, reported in the given form. */
function plan(capacity: number, details: (left: number) => object, chargeOnlyEven = false): Reply {
  let left = capacity;
  return (request, response) => {
    if (request.records.length > left) {
      send(response, 402, { code: "insufficient_record_capacity", ...details(left) });
      return;
    }
    left -= chargeOnlyEven ? Math.floor(request.records.length / 2) : request.records.length;
    answerAll(request, response);
  };
}

describe("402", () => {
  it.each([
    ["in details", (left: number) => ({ details: { records_available: left, records_requested: 4 } })],
    ["as text at the top", (left: number) => ({ records_remaining: String(left) })],
  ])("uses up what is left (reported %s) and stops as limited", async (_name, details) => {
    const run = await look(plan(27, details), 100, { concurrency: 4 });
    expect(run.error).toMatchObject({ name: "LimitReachedError", code: "credits" });
    expect(run.answered).toHaveLength(27);
    expect(run.sent).toEqual(run.answered);
    expect(run.requests.length).toBeLessThanOrEqual(7 + 4 + 3);
  });

  it("makes one call at a time from then on", async () => {
    let running = 0;
    const runningAtStart: number[] = [];
    const run = await look(
      async (request, response) => {
        running += 1;
        runningAtStart.push(running);
        if (request.index > 0) await delay(request.index < 4 ? 50 : 5);
        running -= 1;
        if (request.index === 0) send(response, 402, { records_remaining: 50 });
        else answerAll(request, response);
      },
      60,
      { concurrency: 4 },
    );
    expect(run.answered).toHaveLength(60);
    expect(runningAtStart.slice(4).every((count) => count === 1)).toBe(true);
  });

  it("does not count answers that were under way against what is left", async () => {
    const run = await look(
      async (request, response) => {
        if (request.index > 0) await delay(50);
        if (request.index === 0) send(response, 402, { records_remaining: 3 });
        else if (request.index > 4) send(response, 402, { records_remaining: 0 });
        else answerAll(request, response);
      },
      60,
      { concurrency: 4 },
    );
    expect(sizesOf(run.requests)).toEqual([4, 4, 4, 4, 3, 1]);
  });

  it("cancels calls that still wait for the rate limit", async () => {
    const run = await look(
      (request, response) => {
        if (request.index !== 1) send(response, 402, { records_remaining: request.index === 0 ? 2 : 0 });
        else answerAll(request, response);
      },
      60,
      { concurrency: 4, requestsPerSecond: 1 },
    );
    expect(sizesOf(run.requests)).toEqual([4, 2, 4]);
    expect(run.answered).toEqual(["r12", "r13"]);
  });

  it("continues while the plan covers more, such as when only matches are charged", async () => {
    const run = await look(
      plan(20, (left) => ({ details: { records_available: left } }), true),
      200,
      { batchSize: 10, concurrency: 1 },
    );
    expect(run.error).toMatchObject({ code: "credits" });
    expect(run.answered.length).toBeGreaterThanOrEqual(38);
  });

  it("stops immediately if it doesn't report what is left", async () => {
    const run = await look(
      plan(8, () => ({})),
      100,
      { concurrency: 1 },
    );
    expect(run.error).toMatchObject({ code: "credits" });
    expect(run.requests).toHaveLength(3);
    expect(run.answered).toEqual(idsExcept(8));
  });
});

it("a batch that has become too large while it waited for its turn is cut, so that no turn is lost", async () => {
  const began = performance.now();
  const run = await look(
    (request, response) => {
      if (request.records.length > 2) send(response, 413, {});
      else answerAll(request, response);
    },
    32,
    { batchSize: 8, concurrency: 8, requestsPerSecond: 5, clock: systemClock },
  );
  expect(run.answered).toHaveLength(32);
  // Five turns a second; the first five are at once.
  expect((performance.now() - began) / 1000).toBeLessThan(run.requests.length / 5);
});

describe("the end", () => {
  it("comes early at a signal: calls in flight complete and are yielded, nothing else is sent", async () => {
    const stop = new AbortController();
    const run = await look(
      async (request, response) => {
        if (request.index === 1) stop.abort();
        await delay(50);
        answerAll(request, response);
      },
      100,
      { signal: stop.signal },
    );
    expect(run.error).toBeNull();
    expect(run.requests).toHaveLength(2);
    expect(run.answered).toEqual(idsExcept(8));
  });

  it("sends nothing if the signal came before it started", async () => {
    const run = await look(answerAll, 100, { signal: AbortSignal.abort() });
    expect(run).toMatchObject({ answers: [], requests: [], error: null });
  });

  it("does not wait out a long pause at a signal", async () => {
    const stop = new AbortController();
    const began = performance.now();
    const run = await look(
      (_, response) => {
        setTimeout(() => {
          stop.abort();
        }, 50);
        send(response, 429, {}, { "retry-after": "300" });
      },
      100,
      { signal: stop.signal, concurrency: 3, clock: systemClock },
    );
    expect(run.error).toBeNull();
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  it.each([
    [402, 403],
    [403, 402],
  ])("names the failure when a limit is met as well (%s, then %s)", async (first, second) => {
    const run = await look(async (request, response) => {
      if (!has(request, 0)) await delay(50);
      send(response, has(request, 0) ? first : second, {});
    }, 8);
    expect(run.error).toMatchObject({ name: "StopJobError", code: "forbidden" });
  });

  it("comes after what is in flight when an answer can't be taken, and nothing else is sent", async () => {
    let answers = 0;
    const run = await look(
      async (request, response) => {
        await delay(30 * request.index);
        answerAll(request, response);
      },
      100,
      {
        onAnswer: () => {
          answers += 1;
          if (answers === 1) throw new Error("no room on disk");
        },
      },
    );
    expect(run.error).toMatchObject({ message: "no room on disk" });
    expect(run.requests).toHaveLength(2);
    expect(run.answered).toHaveLength(8);
  });

  it("is what the source threw, after what is in flight was yielded", async () => {
    const service = await serve(answerAll);
    const items = someItems(4);
    const broken = new Proxy(items, {
      get: (target, key, receiver) => {
        if (key === "slice") {
          return (from: number, to?: number) => {
            if (from > 0) throw new Error("the input is gone");
            return target.slice(from, to);
          };
        }
        return Reflect.get(target, key, receiver) as unknown;
      },
    });
    Object.defineProperty(broken, "length", { value: 10 });
    const run = await runLookup(service.url, broken, { pageSize: 4 });
    expect(run.error).toMatchObject({ message: "the input is gone" });
    expect(run.answered).toEqual(idsExcept(4));
  });
});
