import { testSeed } from "./seeded-random.ts";

/** True with `PERSON_ETL_TEST_SIZE=full`: generated suites run completely. */
export const isFullSize = process.env["PERSON_ETL_TEST_SIZE"] === "full";

/** Returns the size of a generated suite. */
export function sized<Amount>(part: Amount, full: Amount): Amount {
  return isFullSize ? full : part;
}

/** Returns all cases, or in part every `nth`, from one that the seed selects. */
export function seededPart<Case>(cases: readonly Case[], nth: number): readonly Case[] {
  const seed = testSeed();
  return isFullSize ? cases : cases.filter((_, i) => (i + seed) % nth === 0);
}
