import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { openLoaderPool } from "../../../src/jobs/lookup/loader-pool.ts";
import * as fc from "../../support/fast-check.ts";

test("everything is committed once, within the bounds, whatever the pace", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        items: fc.integer({ min: 0, max: 60 }),
        loaders: fc.integer({ min: 1, max: 4 }),
        maxGroup: fc.integer({ min: 1, max: 5 }),
        maxWaiting: fc.integer({ min: 1, max: 6 }),
        paces: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 5 }),
      }),
      async ({ items, loaders, maxGroup, maxWaiting, paces }) => {
        const committed: number[] = [];
        let busy = 0;
        let pushed = 0;
        let mostOpen = 0;
        const pool = openLoaderPool<number>({
          loaders,
          maxGroup,
          maxWaiting,
          commit: async (group) => {
            busy += 1;
            expect(busy).toBeLessThanOrEqual(loaders);
            expect(group.length).toBeLessThanOrEqual(maxGroup);
            await delay(paces[committed.length % paces.length]);
            committed.push(...group);
            busy -= 1;
          },
        });
        for (let i = 0; i < items; i++) {
          await pool.push(i);
          pushed += 1;
          mostOpen = Math.max(mostOpen, pushed - committed.length);
        }
        await pool.drain();
        expect(committed.toSorted((a, b) => a - b)).toEqual(Array.from({ length: items }, (_, i) => i));
        expect(mostOpen).toBeLessThanOrEqual(maxWaiting + loaders * maxGroup);
      },
    ),
    { numRuns: 60 },
  );
});

test("after a failed commit nothing more is taken, and the first failure is told", async () => {
  const committed: number[] = [];
  const pool = openLoaderPool<number>({
    loaders: 2,
    maxGroup: 1,
    maxWaiting: 2,
    commit: async ([item = 0]) => {
      await delay(1);
      if (item >= 3) throw new Error(`no room for ${item}`);
      committed.push(item);
    },
  });
  const push = async () => {
    for (let i = 0; i < 50; i++) await pool.push(i);
  };
  await expect(push()).rejects.toThrow("no room for 3");
  await expect(pool.drain()).rejects.toThrow("no room for 3");
  expect(committed).toEqual([0, 1, 2]);
  // What was taken is either committed or left.
  const left = pool.left().toSorted((a, b) => a - b);
  expect(left).toEqual(left.map((_, i) => i + 3));
  expect(left.length).toBeGreaterThan(0);
});

test("a failure wakes whoever waits for room", async () => {
  const pool = openLoaderPool<string>({
    loaders: 1,
    maxGroup: 1,
    maxWaiting: 1,
    commit: async () => {
      await delay(5);
      throw new Error("the disk is full");
    },
  });
  await pool.push("loading");
  await pool.push("waiting");
  await expect(pool.push("has no room")).rejects.toThrow("the disk is full");
  expect(pool.left().toSorted()).toEqual(["has no room", "loading", "waiting"]);
});
