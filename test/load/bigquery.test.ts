import { describe } from "vitest";
import { bigQueryOfRun } from "../support/test-bigquery.ts";
import { openBigQueryPlace } from "./bigquery-place.ts";
import { describeOneNight } from "./suite/one-night.ts";
import { describeWarehouse } from "./warehouse-suite.ts";

const bigQuery = await bigQueryOfRun();

// All of it: bigquery.bigquery.ts.
describe.runIf(bigQuery)("BigQuery", () => {
  if (bigQuery) describeWarehouse("BigQuery", () => openBigQueryPlace(bigQuery), [describeOneNight]);
});
