import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createReceiving } from "../../src/extract/receiving.ts";

const running = new AbortController().signal;

/** Records the end of a wait. */
function noting(wait: Promise<void>): { isOver: boolean } {
  const noted = { isOver: false };
  const note = async () => {
    await wait;
    noted.isOver = true;
  };
  void note();
  return noted;
}

test("bodies beyond the bound wait until a whole one is released", async () => {
  const receiving = createReceiving(100);
  const [first, second] = [receiving.begin(), receiving.begin()];
  await first.add(90, running);
  first.complete();
  const wait = noting(second.add(20, running));
  await turn();
  expect(wait.isOver).toBe(false);
  first.release();
  await turn();
  expect(wait.isOver).toBe(true);
});

test("of bodies that fill the bound side by side, the oldest is let through", async () => {
  const receiving = createReceiving(100);
  const [first, second] = [receiving.begin(), receiving.begin()];
  await first.add(60, running);
  const other = noting(second.add(60, running));
  await first.add(60, running);
  await turn();
  expect(other.isOver).toBe(false);
  first.release();
  await turn();
  expect(other.isOver).toBe(true);
});

test("a body that waits ends with its call", async () => {
  const receiving = createReceiving(100);
  const [first, second] = [receiving.begin(), receiving.begin()];
  await first.add(120, running);
  first.complete();
  const call = new AbortController();
  const wait = second.add(20, call.signal);
  call.abort(new Error("took too long"));
  await expect(wait).rejects.toThrow("took too long");
});
