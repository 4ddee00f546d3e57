import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { sized } from "../support/test-size.ts";
import { startCli } from "../cli/support/cli.ts";
import { setFaults } from "../cli/support/controls.ts";
import { finish, newTotals, prepareCase, RUN, setStage, type Stage, printTotals } from "./kill-support.ts";

const SEED = testSeed(1);
/** Kills without and with faults. */
const KILLS = sized(4, 100);

const FAULTS =
  "429=0:0.1,503:0.1,500:0.03,cut_body:0.05,truncated_json:0.03,reply_lost:0.03,missing:0.1,shuffled:0.3";

/** A number from 0 (inclusive) to 1 (exclusive) per index, from the seed. */
function randomOf(index: number): number {
  let x = (SEED * 0x9e37_79b9 + index * 0x85eb_ca6b) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x45d9_f3b) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x45d9_f3b) >>> 0;
  return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
}

const totals = newTotals();
let stage: Stage;
/** Duration of an undisturbed run on this machine. */
let runMs = 0;
beforeAll(async () => {
  stage = await setStage();
  const setting = await prepareCase(stage.sandbox);
  const startedMs = performance.now();
  await startCli(RUN, setting).result;
  runMs = performance.now() - startedMs;
});
afterAll(() => {
  printTotals(`killed at random moments (seed ${SEED})`, totals);
});

describe("a run that is killed", () => {
  test.each(Array.from({ length: KILLS }, (_, index) => [index]))(
    "at a random moment, is finished by the next one (%i)",
    async (index) => {
      const hasFaults = index % 2 === 1;
      const setting = await prepareCase(stage.sandbox);
      if (hasFaults) await setFaults(stage.sandbox, FAULTS);
      const { child, result } = startCli(RUN, setting);
      const timer = setTimeout(() => child.kill("SIGKILL"), randomOf(index) * runMs);
      await result;
      clearTimeout(timer);
      if (hasFaults) await setFaults(stage.sandbox, "");
      expect(await finish(stage, setting, totals, { mayBeAskedAgain: hasFaults })).toEqual([]);
    },
  );

  test("did so many times", () => {
    expect(totals.kills).toBe(KILLS);
    expect([totals.lost, totals.doubled]).toEqual([0, 0]);
    expect(totals.sentTwice).toBeLessThanOrEqual(totals.mostSentTwice);
  });
});
