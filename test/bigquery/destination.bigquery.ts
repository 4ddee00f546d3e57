import { describeDestination } from "../publish/destination-suite.ts";
import { openBigQueryPlace } from "./bigquery-place.ts";

describeDestination("BigQuery", openBigQueryPlace);
