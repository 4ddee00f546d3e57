import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLoadPace, pauseBeforeLoad } from "../../src/load/bigquery/load-pace.ts";

const NOON = Date.parse("2026-11-21T12:00:00Z");
const MINUTE_MS = 60_000;

/** A clock that moves only while somebody sleeps. */
function clockAt(startMs: number) {
  const clock = { nowMs: startMs, slept: [] as number[] };
  return {
    ...clock,
    now: () => clock.nowMs,
    async sleep(milliseconds: number) {
      clock.slept.push(milliseconds);
      clock.nowMs += milliseconds;
    },
    slept: clock.slept,
  };
}

test.each([
  ["the first load of a day", 0, NOON, 0],
  ["the thousandth, right behind another one", 999, NOON, 0],
  ["the next, with 400 left for 12 hours", 1000, NOON, 108_000],
  ["one whose turn has come meanwhile", 1000, NOON - 108_000, 0],
  ["the last one", 1399, NOON, 720 * MINUTE_MS],
  ["one beyond the last, whenever that was", 1400, 0, 720 * MINUTE_MS],
])("%s waits until it may begin", (_, loads, lastAtMs, pauseMs) => {
  expect(pauseBeforeLoad({ loads, lastAtMs }, NOON)).toBe(pauseMs);
});

async function folderAfter(loads: number, lastAtMs: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "person-etl-pace-"));
  await writeFile(join(folder, "load-jobs.json"), JSON.stringify({ day: "2026-11-21", loads, lastAtMs }));
  return folder;
}

test("from the thousandth load on the rest is spread over the day, whichever process counts", async () => {
  const folder = await folderAfter(997, NOON);
  const clock = clockAt(NOON);
  const one = createLoadPace(folder, clock);
  await Promise.all([one.next(), one.next()]);
  await createLoadPace(folder, clock).next();
  expect(clock.slept).toEqual([]);
  await one.next();
  await createLoadPace(folder, clock).next();
  expect(clock.slept).toEqual([108_000, 108_000]);
});

test("a day has 1,400 loads at most, and the next one begins anew", async () => {
  const clock = clockAt(NOON);
  const pace = createLoadPace(await folderAfter(1399, NOON - 720 * MINUTE_MS), clock);
  await pace.next();
  expect(clock.slept).toEqual([]);
  await pace.next();
  expect(new Date(clock.now()).toISOString()).toBe("2026-11-22T00:00:00.000Z");
  await pace.next();
  expect(clock.slept).toEqual([720 * MINUTE_MS]);
});

test("a count that can't be read counts for none", async () => {
  const folder = await folderAfter(1400, NOON);
  await writeFile(join(folder, "load-jobs.json"), '{"day":"2026-1');
  const clock = clockAt(NOON);
  await createLoadPace(folder, clock).next();
  expect(clock.slept).toEqual([]);
});
