import { openPostgresContext } from "../postgres-context.ts";
import { describeWarehouse, suiteParts } from "../warehouse-suite.ts";

describeWarehouse("a Postgres warehouse", openPostgresContext, suiteParts.erasure);
