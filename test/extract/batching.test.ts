import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createBatchSize } from "../../src/extract/batch-size.ts";
import { itemsOf } from "../../src/extract/batch.ts";
import { openBatchQueue } from "../../src/extract/batch-queue.ts";
import * as fc from "../support/fast-check.ts";

async function* pagesOf<T>(pages: readonly (readonly T[])[]) {
  yield* pages;
}

describe("pages", () => {
  it("of any size become batches of equal size, in order, the last one smaller", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.nat(), { maxLength: 20 }), { maxLength: 20 }),
        fc.integer({ min: 1, max: 9 }),
        async (pages, size) => {
          const queue = openBatchQueue({
            pages: pagesOf(pages),
            clock: systemClock,
            most: () => 1,
            batchSize: () => size,
          });
          const batches: number[][] = [];
          for (let batch = await queue.take(); batch !== null; batch = await queue.take()) {
            batches.push(itemsOf(batch.entries));
            queue.giveBack([]);
          }
          expect(batches.flat()).toEqual(pages.flat());
          expect(batches.slice(0, -1).every((batch) => batch.length === size)).toBe(true);
          expect(batches.every((batch) => batch.length > 0)).toBe(true);
        },
      ),
    );
  });
});

describe("the size of a batch", () => {
  it("stays at the endpoint's limit while answers are small", () => {
    const size = createBatchSize(500);
    size.recordAnswer(3_400_000, 500);
    expect(size.limit).toBe(500);
  });
  it("shrinks until an answer stays near 4 MB", () => {
    const size = createBatchSize(500);
    size.recordAnswer(18_000_000, 500);
    expect(size.limit).toBe(116);
    size.recordAnswer(116 * 36_000, 116);
    expect(size.limit).toBe(116);
  });
  it("grows again when answers do, and is never zero", () => {
    const size = createBatchSize(500);
    size.recordAnswer(900_000_000, 1);
    expect(size.limit).toBe(1);
    for (let i = 0; i < 60; i++) size.recordAnswer(1000, 1);
    expect(size.limit).toBe(500);
  });
  it("is halved by a 413, permanently", () => {
    const size = createBatchSize(500);
    size.recordTooLarge(500);
    expect(size.limit).toBe(250);
    size.recordAnswer(250, 250);
    expect(size.limit).toBe(250);
    size.recordTooLarge(1);
    expect(size.limit).toBe(250);
  });
});
