import { afterAll, describe, expect, test } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { partOf, sized } from "../support/test-size.ts";
import { allFaults, alone, IN_THE_MIDDLE, type NamedDisturbance } from "./disturbances.ts";
import { FAULT_CASES, RATES } from "./fault-cases.ts";
import { disturb } from "./fault-matrix.ts";

const seed = testSeed();
const totals = { cases: 0, requests: 0, records: 0, lost: 0, billedTwice: 0, hit: 0 };

afterAll(() => {
  process.stdout.write(`faults, seed ${seed}: ${JSON.stringify(totals)}\n`);
});

/** Returns problems after each disturbance; runs them in parallel, because they mostly wait. */
async function defectsOf(disturbances: readonly NamedDisturbance[]): Promise<readonly string[]> {
  const found = await Promise.all(
    disturbances.map(async (disturbance) => {
      const { defects, hits, ...report } = await disturb({ ...disturbance, seed });
      totals.cases += 1;
      for (const name of ["requests", "records", "lost", "billedTwice"] as const)
        totals[name] += report[name];
      totals.hit += Object.values(hits).reduce((sum, times) => sum + times, 0);
      const { name, mustHit } = disturbance;
      const missed = mustHit === undefined || hits[mustHit] ? [] : [`${mustHit} never happened`];
      return [...defects, ...missed].map((defect) => `${name}: ${defect}`);
    }),
  );
  return found.flat();
}

describe(`the tables are those of an undisturbed run, and the run totals are right (seed ${seed})`, () => {
  test.each(partOf(FAULT_CASES, 8))("after $name alone, at each rate", async (fault) => {
    expect(await defectsOf(alone(fault))).toEqual([]);
  });

  test("after all faults together, at each rate", async () => {
    expect(await defectsOf(sized([0.03], [...RATES]).map(allFaults))).toEqual([]);
  });

  test.each(IN_THE_MIDDLE)("after $name", async (disturbance) => {
    expect(await defectsOf([disturbance])).toEqual([]);
  });
});
