import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { FixConfigurationError, LimitReachedError, StopRunError } from "../../src/errors.ts";
import { idsExcept, type PlannedCall, runLookup, someItems } from "./run-lookup.ts";
import { answerAll, type Reply, send, startService } from "./scripted-service.ts";

async function start(reply: Reply) {
  const service = await startService(reply);
  onTestFinished(service.close);
  return service;
}

const usedUp = () => new LimitReachedError("budget_day", "The budget is used up.");

/** Grants a total number of records, and records the requests. */
function purse(records: number) {
  const asked: PlannedCall[] = [];
  let left = records;
  return {
    asked,
    reserve: async (call: PlannedCall) => {
      asked.push(call);
      await Promise.resolve();
      const granted = Math.min(left, call.items.length);
      left -= granted;
      if (granted === 0) throw usedUp();
      return granted;
    },
  };
}

describe("a reservation", () => {
  test("is made before each request, including the second try, under the id of its attempt", async () => {
    const reserved: string[] = [];
    const service = await start((request, response) => {
      expect(reserved.length).toBeGreaterThan(request.index);
      if (request.index === 0) send(response, 502, {});
      else if (request.index === 1) send(response, 429, {});
      else answerAll(request, response);
    });
    const attempts: number[] = [];
    const run = await runLookup(service.url, someItems(8), {
      concurrency: 1,
      reserve: async ({ callId, attempt, items }) => {
        reserved.push(callId);
        attempts.push(attempt);
        await Promise.resolve();
        return items.length;
      },
    });
    expect(run.answered).toEqual(idsExcept(8));
    expect(service.requests).toHaveLength(4);
    expect(run.attempts.map((attempt) => attempt.callId)).toEqual(reserved);
    expect(run.attempts.map((attempt) => attempt.attempt)).toEqual(attempts);
  });

  test("of fewer records than requested sends those, and requests the others again", async () => {
    const service = await start(answerAll);
    const grants = [3, 1, 4, 2, 4];
    const asked: number[] = [];
    const run = await runLookup(service.url, someItems(10), {
      concurrency: 1,
      reserve: async ({ items }) => {
        asked.push(items.length);
        await Promise.resolve();
        return Math.min(grants.shift() ?? 4, items.length);
      },
    });
    expect(run.answered).toEqual(idsExcept(10));
    expect(run.error).toBeNull();
    expect(service.requests.map(({ records }) => records.length)).toEqual([3, 1, 4, 2]);
    expect(asked).toEqual([4, 1, 4, 2]);
  });

  test("that is refused ends the lookup for its reason, and what is in flight is answered", async () => {
    const service = await start(answerAll);
    const { reserve, asked } = purse(10);
    const run = await runLookup(service.url, someItems(40), { concurrency: 3, reserve });
    expect(run.error).toEqual(usedUp());
    expect(run.answered).toHaveLength(10);
    expect(run.sent).toHaveLength(10);
    expect(service.requests.flatMap(({ records }) => records)).toHaveLength(10);
    expect(asked.length).toBeLessThanOrEqual(6);
  });

  test("that grants nothing while other calls are in flight waits for what those may release", async () => {
    let left = 12;
    const held = new Map<string, number>();
    // The first three calls hold everything and release it one after the other, as does every second one later.
    const service = await start(async (request, response) => {
      await delay(10 * (request.index % 3));
      if (request.index < 3 || request.index % 2 === 0) send(response, 429, {});
      else answerAll(request, response);
    });
    const run = await runLookup(service.url, someItems(40), {
      concurrency: 4,
      pageSize: 40,
      reserve: async ({ callId, items }) => {
        await Promise.resolve();
        const granted = Math.min(left, items.length);
        left -= granted;
        held.set(callId, granted);
        if (granted === 0) throw usedUp();
        return granted;
      },
      onAttempt: ({ callId, httpStatus }) => {
        if (httpStatus === 429) left += held.get(callId) ?? 0;
      },
    });
    expect(run.error).toEqual(usedUp());
    expect(run.answered).toHaveLength(12);
    expect(left).toBe(0);
  });

  test("counts second tries too: records that may have been charged are not sent beyond the limit", async () => {
    const service = await start((_request, response) => {
      send(response, 504, {});
    });
    const run = await runLookup(service.url, someItems(4), { concurrency: 1, reserve: purse(6).reserve });
    expect(run.error).toEqual(usedUp());
    expect(service.requests.map(({ records }) => records.length)).toEqual([4, 2]);
    expect(run.sent).toEqual(idsExcept(4));
    expect(run.attempts.map((attempt) => attempt.possiblyBilled)).toEqual([true, true]);
  });

  test("that fails ends the lookup, and a failure outranks a limit", async () => {
    const service = await start(answerAll);
    const lost = new StopRunError("warehouse_gone", "The warehouse is gone.");
    const errors: Error[] = [usedUp(), lost, usedUp()];
    const run = await runLookup(service.url, someItems(40), {
      concurrency: 3,
      pageSize: 40,
      reserve: async () => {
        await Promise.resolve();
        throw errors.shift() ?? usedUp();
      },
    });
    expect(run.error).toBe(lost);
    expect(service.requests).toEqual([]);
    expect(run.attempts).toEqual([]);
  });

  test("is settled as not sent when the key can't be read", async () => {
    const service = await start(answerAll);
    const noKey = new FixConfigurationError("api_key_unreadable", "The key is gone.");
    const run = await runLookup(service.url, someItems(4), {
      concurrency: 1,
      http: { readKey: () => Promise.reject(noKey) },
    });
    expect(run.error).toBe(noKey);
    expect(run.sent).toEqual([]);
    expect(run.attempts).toMatchObject([{ recordsSent: 0, recordsMatched: null, possiblyBilled: false }]);
  });
});

describe("records that an earlier run may have paid for", () => {
  const items = someItems(4).map((item, n) => (n < 3 ? { ...item, mayBeBilled: true } : item));

  test("count as possibly billed twice when they are answered", async () => {
    const service = await start(answerAll);
    const run = await runLookup(service.url, items, { concurrency: 1 });
    expect(run.attempts.map((attempt) => attempt.possiblyBilledTwice)).toEqual([3]);
  });

  test("count in each call that may be charged, not in one that isn't, and are tried twice like others", async () => {
    const service = await start((request, response) => {
      if (request.index === 0) send(response, 429, {});
      else if (request.index === 1) send(response, 500, {});
      else answerAll(request, response);
    });
    const run = await runLookup(service.url, items, { concurrency: 1 });
    expect(run.attempts.map((attempt) => attempt.possiblyBilledTwice)).toEqual([0, 3, 4]);
    expect(run.answered).toEqual(idsExcept(4));
  });
});
