import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startCli } from "../cli/support/cli.ts";
import { seededPart, sized } from "../support/test-size.ts";
import { finish, newTotals, prepareCase, RUN, setStage, type Stage, printTotals } from "./kill-support.ts";

const POINTS = [
  "before_reserve",
  "after_reserve",
  "before_send",
  "after_send",
  "after_receive",
  "before_spool_write",
  "after_spool_write",
  "after_spool_fsync",
  "before_copy",
  "after_copy",
  "before_commit",
  "after_commit",
  "after_spool_removal",
  "before_end",
  "after_end",
] as const;

/** In part, half of the points, reached one, two or three times. */
const CASES = seededPart([...POINTS.entries()], 2).flatMap(([i, point]) =>
  sized([1 + (i % 3)], [1, 2, 3]).map((count) => [point, count] as const),
);

const totals = newTotals();
let stage: Stage;
beforeAll(async () => {
  stage = await setStage();
});
afterAll(() => {
  printTotals("killed at every step", totals);
});

describe("a run that is killed", () => {
  test.each(CASES)("at %s, the %i. time, is finished by the next one", async (point, count) => {
    const setting = await prepareCase(stage.sandbox);
    const env = { ...setting.env, PERSON_ETL_CRASH_AT: `${point}:${count}` };
    const { child, result } = startCli(RUN, { ...setting, env });
    await result;
    expect(child.signalCode).toBe("SIGKILL");
    expect(await finish(stage, setting, totals)).toEqual([]);
  });
});
