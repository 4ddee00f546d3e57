/** True with `PERSON_ETL_TEST_SIZE=full`: generated suites run completely. */
export const isFullSize = process.env["PERSON_ETL_TEST_SIZE"] === "full";

/** Returns the size of a generated suite. */
export function sized<Amount>(part: Amount, full: Amount): Amount {
  return isFullSize ? full : part;
}
