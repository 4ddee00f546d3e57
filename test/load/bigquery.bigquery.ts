import { describe } from "vitest";
import { bigQueryOfRun } from "../support/test-bigquery.ts";
import { openBigQueryPlace } from "./bigquery-place.ts";
import { describeWarehouse } from "./warehouse-suite.ts";

const bigQuery = await bigQueryOfRun();

describe.runIf(bigQuery)("BigQuery", () => {
  if (bigQuery) describeWarehouse("BigQuery", () => openBigQueryPlace(bigQuery));
});
