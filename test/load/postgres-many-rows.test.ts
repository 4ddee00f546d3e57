import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openPostgresContext, type PostgresContext } from "./postgres-context.ts";
import { clear, valueOf } from "./suite/context.ts";
import { commitOf, runOf } from "./suite/nights.ts";
import { enrichSpec } from "./suite/people.ts";
import { looseRecord } from "./suite/person-updates.ts";

let context: PostgresContext;
beforeAll(async () => {
  context = await openPostgresContext();
});
beforeEach(() => clear(context));
afterAll(() => context.close());

const MANY = 10_000;
const spec = enrichSpec();
const tables = ["person_data.enrichment", "person_data.match_history", "person_data_state.lookup_state"];

const commit = (keys: readonly string[]) =>
  context.warehouse.commitLookup(
    commitOf(
      context.warehouse,
      spec,
      runOf(spec, "run-1"),
      keys.map((key) => [looseRecord(key), { pid: "p-1" }] as const),
    ),
  );

test("a commit reads the rows of its own records only, even in tables without statistics", async () => {
  await commit(["first"]);
  for (const table of tables) {
    await context.sql(`INSERT INTO ${table}
      SELECT (jsonb_populate_record(t, jsonb_build_object('source_key', 'row ' || n))).*
      FROM ${table} AS t, generate_series(1, ${MANY}) AS n`);
    // An analysis at this moment would give the planner statistics.
    await context.sql(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`);
  }
  const commits = "SELECT count(*) FROM person_data_ops.api_call";
  const read = `SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables
    WHERE schemaname || '.' || relname IN (${tables.map((name) => `'${name}'`).join(", ")})`;
  await context.sql("SELECT pg_stat_force_next_flush()");
  const before = Number(await valueOf(context, read));
  await commit(["row 1", "row 2", "new"]);
  expect(await valueOf(context, commits)).toBe("2");
  // The server counts reads when the session next rests.
  await expect
    .poll(async () => Number(await valueOf(context, read)), { timeout: 10_000 })
    .toBeGreaterThan(before);
  expect(Number(await valueOf(context, read)) - before).toBeLessThan(100);
});
