import { inject } from "vitest";
import { findBigQuery, type TestBigQuery } from "./bigquery-emulator.ts";

/** The BigQuery of this test run; null where none can be had, which is said loudly, and fails with CI=true. */
export async function bigQueryOfRun(): Promise<TestBigQuery | null> {
  const found = await findBigQuery(inject("runFolder"));
  if (found) return found;
  const message =
    "THE BIGQUERY SUITE DID NOT RUN: neither a Docker daemon nor Python 3.13 is there, and BIGQUERY_EMULATOR_HOST names no emulator.";
  if (process.env["CI"] === "true") throw new Error(message);
  process.stderr.write(`\n${message}\n\n`);
  return null;
}
