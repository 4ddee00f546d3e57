import { describeDestination } from "./destination-suite.ts";
import { openDuckDbPlace } from "./duckdb-place.ts";

describeDestination("DuckDB", openDuckDbPlace);
