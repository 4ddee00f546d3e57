import { afterAll, beforeAll, expect, test } from "vitest";
import { openWarehouse } from "../support/bound-load.ts";
import { createDatabase } from "../support/fresh-database.ts";
import { type Pooler, POOLER_TIMEOUT_MS, startPooler } from "../support/pgbouncer.ts";
import { openPostgresContext } from "./postgres-context.ts";
import { describeWarehouse } from "./warehouse-suite.ts";
import { runSql } from "../support/run-sql.ts";

let pooler: Pooler;
beforeAll(async () => {
  pooler = await startPooler();
}, POOLER_TIMEOUT_MS);
afterAll(() => pooler.stop());

test("migrations behind PgBouncer leave no lock with a session that serves others by then", async () => {
  const database = await createDatabase();
  const open = () =>
    openWarehouse({
      url: pooler.through(database.url),
    });
  const warehouses = Array.from({ length: 6 }, open);
  const ran = await Promise.all(warehouses.map((warehouse) => warehouse.migrate()));
  expect(ran.filter((names) => names.length > 0)).toHaveLength(1);
  const locks = `SELECT count(*)::int AS held FROM pg_locks WHERE locktype IN ('advisory', 'relation')
    AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  expect(await runSql(database.url, locks)).toEqual([{ held: 0 }]);
  await Promise.all(warehouses.map((warehouse) => warehouse.close()));
  await database.release();
});

describeWarehouse("a Postgres warehouse behind PgBouncer in transaction mode", () =>
  openPostgresContext({ through: (url) => pooler.through(url) }),
);
