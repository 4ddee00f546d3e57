import { expect, test } from "vitest";
import { createByteBudget } from "../../../src/jobs/lookup/byte-budget.ts";
import * as fc from "../../support/fast-check.ts";

test("answers in memory never have more bytes than the budget, unless one alone does", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 150 }), { maxLength: 30 }), async (sizes) => {
      const budget = createByteBudget(100);
      const order: number[] = [];
      let [used, holders, most] = [0, 0, 0];
      await Promise.all(
        sizes.map(async (size, i) => {
          const giveBack = await budget.take(size);
          order.push(i);
          used += size;
          holders += 1;
          if (holders > 1) most = Math.max(most, used);
          await Promise.resolve();
          used -= size;
          holders -= 1;
          giveBack();
          giveBack();
        }),
      );
      expect(most).toBeLessThanOrEqual(100);
      expect(order).toEqual(sizes.map((_, i) => i));
    }),
  );
});

test("the whole budget is taken alone", async () => {
  const budget = createByteBudget(100);
  const giveBack = await budget.take(1);
  const events: string[] = [];
  const alone = budget.take(Number.POSITIVE_INFINITY).then((done) => {
    events.push("alone");
    return done;
  });
  const next = budget.take(1).then(() => events.push("next"));
  await new Promise((resolve) => setImmediate(resolve));
  expect(events).toEqual([]);
  giveBack();
  const done = await alone;
  expect(events).toEqual(["alone"]);
  done();
  await next;
  expect(events).toEqual(["alone", "next"]);
});

test("bytes that are no longer needed are available to the next", async () => {
  const budget = createByteBudget(100);
  const giveBack = await budget.take(100);
  const events: string[] = [];
  const next = budget.take(60).then(() => events.push("next"));
  giveBack(50);
  await new Promise((resolve) => setImmediate(resolve));
  expect(events).toEqual([]);
  giveBack(40);
  await next;
  expect(events).toEqual(["next"]);
});
