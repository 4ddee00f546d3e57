import { beforeEach, expect, test, vi } from "vitest";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Session } from "../../src/load/db/session.ts";
import { openLocalInput } from "../../src/load/inputs/read.ts";
import type { LookupSpec } from "../../src/load/lookups/lookup.ts";
import { seeInput } from "../../src/load/lookups/see-input.ts";
import { readClaims } from "../../src/load/lookups/claims.ts";
import { comparison } from "../../src/load/lookups/content.ts";
import { contextOf, readCoverage } from "../../src/load/lookups/selection.ts";
import { useContext } from "./postgres-context.ts";
import { begin } from "./suite/nights.ts";
import { enrichSpec, resolveSpec } from "./suite/people.ts";

// Plans for large inputs and states: parallel ones.

const resolve = resolveSpec();
const enrich = enrichSpec({ pidFrom: "resolve_people", dropsInvalidEmails: true });

/** Enough that other plans would cost more. */
const ROWS = 15_000;

const context = useContext();
beforeEach(async () => {
  // The fingerprints differ from those of the rows, as after many changes.
  await context.sql(`CREATE TABLE crm.people AS SELECT i::text AS id, 'Ann' AS first_name, 'Lee' AS last_name,
      NULL AS phone, i || '@example.com' AS email FROM generate_series(1, ${ROWS}) AS i;
    INSERT INTO person_data_state.lookup_row (job, source, source_key, fingerprint, content, _synced_at, _run_id)
    SELECT job, 'people', id, '\\x00', sha256(id::bytea), now(), ''
    FROM crm.people, (VALUES ('resolve_people'), ('enrich_people')) AS j(job);
    INSERT INTO person_data_state.lookup_job (job, source, kind, mapping, input_definition, _synced_at, _run_id)
    VALUES ('resolve_people', 'people', '${resolve.kind}', '${resolve.mapping}', '', now(), '')`);
  // An earlier test may have left statistics of other rows.
  await context.sql("ANALYZE crm.people, person_data_state.lookup_row");
});

/** Has Postgres use parallel plans for small tables, too. */
async function allowParallel(session: Session): Promise<void> {
  await session.client.query("SET LOCAL parallel_setup_cost = 0; SET LOCAL min_parallel_table_scan_size = 0");
}

/** Returns the plan of the comparison of fingerprints, without cost figures. */
async function planOf(session: Session, { type, input, ...spec }: LookupSpec): Promise<readonly string[]> {
  const reading = { type, ranked: false, hasFingerprint: true, isWithoutValues: true };
  const keys = await openLocalInput(session, input, reading);
  await allowParallel(session);
  await session.client.query("SET LOCAL enable_nestloop = off");
  const rows = await session.rows<{ "QUERY PLAN": string }>(
    sql`EXPLAIN ${comparison(session, { type, input, ...spec }, keys)}`,
  );
  return rows.map((row) => row["QUERY PLAN"].replace(/\(cost=.*/u, "").trim());
}

/** Sequential scans that aren't parallel. */
const serialScans = (plan: readonly string[]) =>
  plan.filter((line) => /Seq Scan/u.test(line) && !/Parallel Seq Scan/u.test(line));

test.each([resolve, enrich])("compares fingerprints in a parallel plan: $job", async (spec) => {
  const plan = await context.warehouse.db.preview((session) => planOf(session, spec));
  expect(serialScans(plan)).toEqual([]);
  expect(plan[0]).toMatch(/^Finalize /u);
  expect(plan).toContain("->  Parallel Hash Full Join");
});

test("reads the rows of changed keys in a parallel plan", async () => {
  const statements = await context.warehouse.db.preview(async (session) => {
    await allowParallel(session);
    const query = vi.spyOn(session.client, "query");
    const seen = await seeInput(await contextOf(context.warehouse.db, session, resolve));
    expect(seen).toMatchObject({ quiet: 0, isWhole: false });
    const sent = query.mock.calls.map(([statement]) => textOf(statement));
    query.mockRestore();
    return sent;
  });
  const created = statements.filter((text) => text.startsWith('CREATE TEMP TABLE "candidate_row"'));
  expect(created).toHaveLength(1);
  // Postgres refuses an INSERT in a parallel plan, so other plans fill an empty table.
  expect(created[0]).not.toContain("WITH NO DATA");
});

test("reads a page of claims by their key, without sorting all of them", async () => {
  await context.sql(`INSERT INTO person_data_state.lookup_due (kind, content, record, job, shard, epoch, rows, was_rejected, is_sent, _synced_at, _run_id)
    SELECT '${resolve.kind}', sha256(i::text::bytea), '{}', 'resolve_people', '0/1', 1, 1, false, false, now(), '' FROM generate_series(1, 5000) AS i;
    ANALYZE person_data_state.lookup_due`);
  const plan = await context.warehouse.db.preview(async (session) => {
    const query = vi.spyOn(session.client, "query");
    const run = { job: "resolve_people", shard: "0/1", epoch: 1 };
    const page = await readClaims(session, resolve, run, {
      after: "80",
      size: 100,
    });
    expect(page).toHaveLength(100);
    const [read] = query.mock.calls.map(
      ([statement]) => statement as unknown as { text: string; values: string[] },
    );
    query.mockRestore();
    const { rows } = await session.client.query<{ "QUERY PLAN": string }>({
      text: `EXPLAIN ${read?.text}`,
      values: read?.values ?? [],
    });
    return rows.map((row) => row["QUERY PLAN"]).join("\n");
  });
  expect(plan).toContain("Index Scan using lookup_due_pkey");
  expect(plan).not.toContain("Sort");
});

test("claims many contents although statistics say that nothing is due, as after the job before", async () => {
  await context.sql(`INSERT INTO person_data_state.lookup_due (kind, content, rows, was_rejected, is_sent, _synced_at, _run_id)
    SELECT 'other', sha256(i::text::bytea), 1, false, false, now(), '' FROM generate_series(1, 5000) AS i;
    DELETE FROM person_data_state.lookup_due; ANALYZE person_data_state.lookup_due`);
  const run = await begin(context.warehouse, resolve, randomUUID());
  // Joined for each claim, it would take a minute.
  const selection = await context.warehouse.selectLookup(resolve, run);
  expect(selection.counts.due).toBe(ROWS);
  await selection.close();
}, 20_000);

test("counts the coverage of many rows without looking up each, although statistics say that all are missing", async () => {
  await context.sql(`UPDATE person_data_state.lookup_row SET missing_since = now(); ANALYZE person_data_state.lookup_row;
    UPDATE person_data_state.lookup_row SET missing_since = NULL`);
  const { db } = context.warehouse;
  expect(await readCoverage(db, resolve, 0)).toMatchObject({ inputRows: ROWS });
  const plan = await context.sql(
    "EXPLAIN SELECT FROM person_data_state.lookup_row WHERE missing_since IS NULL",
  );
  expect(JSON.stringify(plan)).toMatch(/rows=(2[6-9]|3[0-4])\d{3}\D/u);
});

/** Text of a statement, as it is passed to the driver. */
function textOf(statement: unknown): string {
  const hasText = typeof statement === "object" && statement !== null && "text" in statement;
  return String(hasText ? statement.text : statement);
}
