import { describeDestination } from "../publish/destination-suite.ts";
import { openBigQueryContext } from "./bigquery-context.ts";

describeDestination("BigQuery", openBigQueryContext);
