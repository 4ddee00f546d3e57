import { openPostgresPlace } from "./postgres-place.ts";
import { describeWarehouse } from "./warehouse-suite.ts";

describeWarehouse("a Postgres warehouse", openPostgresPlace);
