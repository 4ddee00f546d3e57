import { afterAll, beforeAll, expect, test } from "vitest";
import { openWarehouse } from "../support/bound-load.ts";
import { createDatabase } from "../support/fresh-database.ts";
import { type Pooler, POOLER_TIMEOUT_MS, reachThrough, startPooler } from "../support/pgbouncer.ts";
import { runSql } from "../support/run-sql.ts";

let pooler: Pooler;
beforeAll(async () => {
  pooler = await startPooler();
  reachThrough(pooler);
}, POOLER_TIMEOUT_MS);
afterAll(async () => {
  reachThrough(null);
  await pooler.stop();
});

test("migrations behind PgBouncer leave no lock with a session that serves others by then", async () => {
  const database = await createDatabase();
  const open = () => openWarehouse({ url: pooler.through(database.url) });
  const warehouses = Array.from({ length: 6 }, open);
  const ran = await Promise.all(warehouses.map((warehouse) => warehouse.migrate()));
  expect(ran.filter((names) => names.length > 0)).toHaveLength(1);
  const locks = `SELECT count(*)::int AS held FROM pg_locks WHERE locktype IN ('advisory', 'relation')
    AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  expect(await runSql(database.url, locks)).toEqual([{ held: 0 }]);
  await Promise.all(warehouses.map((warehouse) => warehouse.close()));
  await database.release();
});

// Transactions of every kind, whose sessions serve others before and after.
await import("./commits.test.ts");
await import("./erasure.test.ts");
await import("./inputs.test.ts");
await import("./job-lock.test.ts");
await import("./runs.test.ts");
await import("../nights/content.test.ts");
await import("../nights/limits.test.ts");
await import("../nights/shards.test.ts");
