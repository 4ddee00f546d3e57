import { openPostgresContext } from "./postgres-context.ts";
import { describeWarehouse } from "./warehouse-suite.ts";

describeWarehouse("a Postgres warehouse", openPostgresContext);
