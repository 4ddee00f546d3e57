import { testSeed } from "./seeded-random.ts";

/** True with `PERSON_ETL_TEST_SIZE=full`: generated suites run completely. */
export const isFullSize = process.env["PERSON_ETL_TEST_SIZE"] === "full";

/** Returns the size of a generated suite. */
export function sized<Amount>(part: Amount, full: Amount): Amount {
  return isFullSize ? full : part;
}

/**
 * Returns all cases in full size, otherwise every `nth`, at least one. PERSON_ETL_TEST_PART selects the first of them; CI derives
 * it from the commit, so that successive commits run different cases. Without it the seed does.
 */
export function partOf<Case>(cases: readonly Case[], nth: number): readonly Case[] {
  if (isFullSize) return cases;
  const part = Number(process.env["PERSON_ETL_TEST_PART"] ?? testSeed());
  const step = Math.min(nth, cases.length);
  return cases.filter((_, i) => (i + part) % step === 0);
}
