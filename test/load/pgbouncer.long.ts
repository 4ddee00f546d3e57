import { afterAll, beforeAll } from "vitest";
import { type Pooler, startPooler } from "../support/pgbouncer.ts";
import { openPostgresPlace } from "./postgres-place.ts";
import { describeWarehouse } from "./warehouse-suite.ts";

let pooler: Pooler;
beforeAll(async () => {
  pooler = await startPooler();
});
afterAll(() => pooler.stop());

describeWarehouse("a Postgres warehouse behind PgBouncer in transaction mode", () =>
  openPostgresPlace({ through: (url) => pooler.through(url) }),
);
