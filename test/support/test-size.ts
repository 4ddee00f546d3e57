/** True with `PERSON_ETL_TEST_SIZE=full`: generated suites run whole instead of in part. */
export const isFullSize = process.env["PERSON_ETL_TEST_SIZE"] === "full";

/** Returns how much of a generated suite to run. */
export function sized<Amount>(part: Amount, full: Amount): Amount {
  return isFullSize ? full : part;
}
