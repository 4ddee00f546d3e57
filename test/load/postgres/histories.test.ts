import { openPostgresContext } from "../postgres-context.ts";
import { describeErasureHistories } from "../suite/erasure-histories.ts";
import { describeWarehouse } from "../warehouse-suite.ts";

// The first of the histories; all of them run in pgbouncer.slow.ts.
describeWarehouse("a Postgres warehouse", openPostgresContext, [
  (getContext) => describeErasureHistories(getContext, 5),
]);
