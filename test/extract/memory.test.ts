import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import {
  beginReceiving,
  createMemory,
  endReceiving,
  type Lease,
  openLease,
  receiveBytes,
  releaseLease,
  resizeLease,
  takeMemory,
} from "../../src/extract/memory.ts";
import * as fc from "../support/fast-check.ts";

const running = new AbortController().signal;

/** Records the end of a wait. */
function noting(wait: Promise<unknown>): { isOver: boolean } {
  const noted = { isOver: false };
  const note = async () => {
    await wait;
    noted.isOver = true;
  };
  void note();
  return noted;
}

/** A body that begins to arrive. */
function begin(lease: Lease): Lease {
  beginReceiving(lease);
  return lease;
}

describe("memory", () => {
  test("never has more bytes than the budget, unless one answer alone does, and is given in order", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 150 }), fc.integer({ min: 0, max: 150 })), {
          maxLength: 30,
        }),
        async (answers) => {
          const memory = createMemory(100);
          const order: number[] = [];
          await Promise.all(
            answers.map(async ([expected, real], i) => {
              const lease = await takeMemory(memory, expected);
              order.push(i);
              expect(memory.usedBytes).toBeLessThanOrEqual(100);
              await Promise.resolve();
              expect(resizeLease(lease, real) || real > expected).toBe(true);
              expect(memory.usedBytes).toBeLessThanOrEqual(100);
              await Promise.resolve();
              releaseLease(lease);
              releaseLease(lease);
            }),
          );
          expect(order).toEqual(answers.map((_, i) => i));
          expect(memory.usedBytes).toBe(0);
        },
      ),
    );
  });

  test("is waited for by a large body only while another answer is held", async () => {
    const memory = createMemory(100);
    const loaded = begin(await takeMemory(memory, 40));
    endReceiving(loaded);
    const large = begin(await takeMemory(memory, 40));
    const received = noting(receiveBytes(large, 120, running));
    await turn();
    expect(received.isOver).toBe(false);
    releaseLease(loaded);
    await turn();
    expect(received.isOver).toBe(true);
  });

  test("is taken alone by what is larger than all of it", async () => {
    const memory = createMemory(100);
    const [first, second] = [await takeMemory(memory, 1), await takeMemory(memory, 1)];
    const alone = takeMemory(memory, Number.POSITIVE_INFINITY);
    const aloneTaken = noting(alone);
    const nextTaken = noting(takeMemory(memory, 1));
    await turn();
    expect([aloneTaken.isOver, nextTaken.isOver]).toEqual([false, false]);
    expect(resizeLease(first, Number.POSITIVE_INFINITY)).toBe(false);
    releaseLease(first);
    releaseLease(second);
    await turn();
    expect([aloneTaken.isOver, nextTaken.isOver]).toEqual([true, false]);
    releaseLease(await alone);
    await turn();
    expect(nextTaken.isOver).toBe(true);
  });

  test("that an answer turns out not to need is free for the next", async () => {
    const memory = createMemory(100);
    const first = await takeMemory(memory, 100);
    const next = noting(takeMemory(memory, 60));
    expect(resizeLease(first, 50)).toBe(true);
    await turn();
    expect(next.isOver).toBe(false);
    expect(resizeLease(first, 40)).toBe(true);
    await turn();
    expect(next.isOver).toBe(true);
  });
});

describe("a body larger than expected", () => {
  test("is let through if it is the oldest of those that fill the budget side by side", async () => {
    const memory = createMemory(100);
    const [first, second] = [begin(openLease(memory)), begin(openLease(memory))];
    await receiveBytes(first, 60, running);
    const other = noting(receiveBytes(second, 60, running));
    await receiveBytes(first, 60, running);
    await turn();
    expect(other.isOver).toBe(false);
    releaseLease(first);
    await turn();
    expect(other.isOver).toBe(true);
  });

  test("does not wait for a call that is still unanswered, nor behind an answer that waits to be alone", async () => {
    const memory = createMemory(100);
    const [silent, body] = [await takeMemory(memory, 40), await takeMemory(memory, 40)];
    const alone = noting(takeMemory(memory, Number.POSITIVE_INFINITY));
    beginReceiving(body);
    await receiveBytes(body, 90, running);
    expect(memory.usedBytes).toBe(130);
    releaseLease(body);
    await turn();
    expect(alone.isOver).toBe(false);
    releaseLease(silent);
    await turn();
    expect(alone.isOver).toBe(true);
  });

  test("ends its wait with its call", async () => {
    const memory = createMemory(100);
    const [first, second] = [begin(openLease(memory)), begin(openLease(memory))];
    await receiveBytes(first, 120, running);
    endReceiving(first);
    const call = new AbortController();
    const wait = receiveBytes(second, 20, call.signal);
    call.abort(new Error("took too long"));
    await expect(wait).rejects.toThrow("took too long");
  });
});
