import * as fc from "../support/fast-check.ts";
import { describe, expect, it, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import {
  buildRequest,
  capacityAfterRefusal,
  expectedMemory,
  firstSize,
  memoryFor,
  sizeAfterAnswer,
} from "../../src/extract/batches.ts";
import {
  closeQueue,
  openQueue,
  planBatch,
  type Queue,
  refuseBatch,
  returnBatch,
  stopQueue,
  takeBatch,
} from "../../src/extract/queue.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { validateEmailsEndpoint } from "../../src/schemas/validate-emails.ts";
import { someItems } from "./drive.ts";

async function* pagesOf<T>(pages: readonly (readonly T[])[]) {
  yield* pages;
}

function open<T>(pages: readonly (readonly T[])[], maxRecords: number, concurrency = 1): Queue<T> {
  const endpoint = { ...enrichEndpoint, maxRecords };
  return openQueue({ endpoint, pages: pagesOf(pages), concurrency, clock: systemClock });
}

const itemsIn = <T>(batch: { readonly entries: readonly { readonly item: T }[] } | null) =>
  batch?.entries.map(({ item }) => item);

describe("a taken batch", () => {
  it("that a budget refused is next, and from then on alone", async () => {
    const queue = open([[1, 2, 3, 4]], 1, 3);
    const [first, second, third] = [await takeBatch(queue), await takeBatch(queue), await takeBatch(queue)];
    if (!first || !second || !third) throw new Error("no batch");
    refuseBatch(queue, first);
    expect(planBatch(queue, second)).toBeNull();
    expect(planBatch(queue, third)?.entries).toHaveLength(1);
    returnBatch(queue, []);
    expect(itemsIn(await takeBatch(queue))).toEqual([1]);
    // Others wait until it is returned.
    const other = takeBatch(queue);
    returnBatch(queue, []);
    expect(itemsIn(await other)).toEqual([2]);
  });

  it("is not sent after a stop, and nothing follows", async () => {
    const queue = open([[1, 2]], 1, 2);
    const batch = await takeBatch(queue);
    stopQueue(queue);
    expect(batch && planBatch(queue, batch)).toBeNull();
    expect(await takeBatch(queue)).toBeNull();
  });
});

const after = (size: ReturnType<typeof firstSize>, plainBytes: number, records: number) =>
  sizeAfterAnswer(size, { plainBytes, bodyBytes: plainBytes / 10 }, records);

describe("the size of a batch", () => {
  it("shrinks until an answer stays near 4 MB", () => {
    const size = after(firstSize(500), 18_000_000, 500);
    expect(size.limit).toBe(116);
    expect(after(size, 116 * 36_000, 116).limit).toBe(116);
  });
  it("grows again when answers do, and is never zero", () => {
    let size = after(firstSize(500), 900_000_000, 1);
    expect(size.limit).toBe(1);
    for (let i = 0; i < 60; i++) size = after(size, 1000, 1);
    expect(size.limit).toBe(500);
  });
});

test("a call takes enough memory for an answer like the ones before, so that it needn't be read from disk again", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1000 }),
      fc.integer({ min: 1, max: 1e7 }),
      fc.integer({ min: 1, max: 20 }),
      (records, bodyBytes, ratio) => {
        const plainBytes = ratio * bodyBytes;
        const size = sizeAfterAnswer(firstSize(1000), { plainBytes, bodyBytes }, records);
        const isPacked = ratio > 1;
        expect(expectedMemory(size, records)).toBeGreaterThanOrEqual(
          memoryFor(records, bodyBytes, isPacked ? plainBytes : 0),
        );
      },
    ),
  );
});

test("the capacity after concurrent 402s counts them once, and is used up at the fourth call made alone", () => {
  const tight = { isTight: true, refusals: 3, available: 2 };
  const available = 5;
  expect(capacityAfterRefusal(tight, available, false)).toEqual({
    capacity: { ...tight, available },
    isUsedUp: false,
  });
  expect(capacityAfterRefusal(tight, available, true)).toEqual({
    capacity: { ...tight, available, refusals: 4 },
    isUsedUp: true,
  });
});

async function* brokenPages() {
  yield [1];
  await Promise.resolve();
  throw new Error("the input is gone");
}

test("a page that can't be read ends the batches with its error", async () => {
  const endpoint = { ...enrichEndpoint, maxRecords: 1 };
  const queue = openQueue({ endpoint, pages: brokenPages(), concurrency: 2, clock: systemClock });
  expect(itemsIn(await takeBatch(queue))).toEqual([1]);
  await expect(takeBatch(queue)).rejects.toThrow("the input is gone");
  await closeQueue(queue);
});

test("a request carries parameters beside the records, which are sent unchanged", () => {
  const parameters = { return_fields: ["age"], include_premium_fields: true };
  const address = { recordId: "r0", json: '"a@x.org"' };
  expect(buildRequest(enrichEndpoint, parameters, [...someItems(1), { recordId: "r1", json: "{}" }])).toEqual(
    {
      method: "POST",
      path: "/v2/enrich",
      body: '{"records":[{"record_id":"r0","city":"c0"},{"record_id":"r1"}],"return_fields":["age"],"include_premium_fields":true}',
    },
  );
  expect(buildRequest(validateEmailsEndpoint, {}, [address]).body).toBe('{"records":["a@x.org"]}');
});
