import { expect, test } from "vitest";
import { openWarehouse, type Warehouse } from "../support/bound-load.ts";
import { useContext } from "./postgres-context.ts";
import { valueOf } from "./suite/context.ts";
import { commitOf, runOf } from "./suite/nights.ts";
import { enrichSpec } from "./suite/people.ts";
import { looseRecord, readRows } from "./suite/person-updates.ts";

const context = useContext();

const MANY = 10_000;
const spec = enrichSpec();
const CONTENT = "sha256(convert_to('first_name=' || octet_length(key) || ':' || key || ';', 'UTF8'))";

/** Tables that a commit writes, and what differs between their rows. */
const tables = {
  "person_data.enrichment": "source_key = key",
  "person_data.match_history": "source_key = key",
  "person_data_state.lookup_row": `source_key = key, content = ${CONTENT}`,
  "person_data_state.lookup_answer": `content = ${CONTENT}`,
};

const commit = (warehouse: Warehouse, keys: readonly string[]) =>
  warehouse.commitLookup(
    commitOf(
      warehouse,
      spec,
      runOf(spec, "run-1"),
      keys.map((key) => [looseRecord(key), { pid: "p-1" }] as const),
    ),
  );

/** Rows that sessions which have ended read from the tables. */
async function rowsRead(): Promise<number> {
  return Number(
    await valueOf(
      context,
      `SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables
        WHERE schemaname || '.' || relname IN (${Object.keys(tables)
          .map((name) => `'${name}'`)
          .join(", ")})`,
    ),
  );
}

test("a commit reads the rows of its own records only, even in tables without statistics", async () => {
  await readRows(context, spec, runOf(spec, "run-1"), ["first"]);
  await commit(context.warehouse, ["first"]);
  for (const [table, set] of Object.entries(tables)) {
    await context.sql(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`);
    // One row is read, so that the test's own session counts few.
    await context.sql(`CREATE TEMP TABLE other AS SELECT * FROM ${table};
      INSERT INTO other SELECT other.* FROM other, generate_series(2, ${MANY});
      ALTER TABLE other ADD number integer GENERATED ALWAYS AS IDENTITY, ADD key text;
      UPDATE other SET key = 'row ' || number;
      UPDATE other SET ${set};
      ALTER TABLE other DROP number, DROP key;
      INSERT INTO ${table} SELECT * FROM other;
      DROP TABLE other`);
  }
  const before = await rowsRead();
  const another = openWarehouse({ url: context.url });
  await commit(another, ["row 1", "row 2", "new"]);
  // Its sessions report what they read when they end.
  await another.close();
  await expect.poll(rowsRead, { timeout: 20_000 }).toBeGreaterThan(before);
  expect((await rowsRead()) - before).toBeLessThan(100);
});
