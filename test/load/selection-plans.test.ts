import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { sql } from "kysely";
import type { Db } from "../../src/load/db/db.ts";
import type { Session } from "../../src/load/db/session.ts";
import { comparison, findCandidates, TO_CLASSIFY } from "../../src/load/due/find-candidates.ts";
import type { LookupSpec } from "../../src/load/due/lookup-spec.ts";
import { takeReusable } from "../../src/load/due/reuse.ts";
import { openLocalInput } from "../../src/load/inputs/foreign-input.ts";
import { raw } from "../../src/load/inputs/input.ts";
import { openDefaultDb, openPostgresContext, type PostgresContext } from "./postgres-context.ts";
import { clear } from "./suite/context.ts";
import { enrichSpec, resolveSpec } from "./suite/people.ts";

// Plans for large inputs and states: parallel ones, or by an index.

const resolve = resolveSpec();
const enrich = enrichSpec({ pidFrom: "resolve_people", dropsInvalidEmails: true });

let context: PostgresContext;
let db: Db;
beforeAll(async () => {
  context = await openPostgresContext();
  db = openDefaultDb(context.url);
});
beforeEach(async () => {
  await clear(context);
  await context.sql(`CREATE TABLE crm.people AS SELECT i::text AS id, 'Ann' AS first_name, 'Lee' AS last_name,
      NULL AS phone, i || '@example.com' AS email FROM generate_series(1, 60000) AS i;
    INSERT INTO person_data_state.lookup_state (job, source, source_key, input_hash, sent_hash, hash_version, parameters_hash, outcome,
      attempts, _run_id)
    SELECT job, 'people', id, sha256(id::bytea), sha256(id::bytea), 1, '${resolve.parametersHash}', 'matched', 1, ''
    FROM crm.people, (VALUES ('resolve_people'), ('enrich_people')) AS j(job)`);
});
afterAll(async () => {
  await db.close();
  await context.close();
});

/** Opens the keys and fingerprints of an input. */
function openKeys(session: Session, { type, input }: LookupSpec) {
  const reading = {
    type,
    ranked: false,
    isSharded: false,
    hasFingerprint: true,
    isWithoutValues: true,
  };
  return openLocalInput(session, input, reading);
}

/** Has Postgres use parallel plans for small tables, too. */
async function allowParallel(session: Session): Promise<void> {
  await session.client.query("SET LOCAL parallel_setup_cost = 0; SET LOCAL min_parallel_table_scan_size = 0");
}

/** Returns the plan of a query without cost figures. */
async function planOf(session: Session, query: string): Promise<readonly string[]> {
  await allowParallel(session);
  await session.client.query("SET LOCAL enable_nestloop = off");
  const rows = await session.rows<{ "QUERY PLAN": string }>(sql`EXPLAIN ${raw(query)}`);
  return rows.map((row) => row["QUERY PLAN"].replace(/\(cost=.*/u, "").trim());
}

/** Sequential scans that aren't parallel. */
const serialScans = (plan: readonly string[]) =>
  plan.filter((line) => /Seq Scan/u.test(line) && !/Parallel Seq Scan/u.test(line));

test.each([resolve, enrich])("compares fingerprints in a parallel plan: $job", async (spec) => {
  const plan = await db.preview(async (session) => {
    const { rawRows } = await openKeys(session, spec);
    return planOf(session, comparison(db.names, spec, { rawRows, keyIsUnique: false }));
  });
  expect(serialScans(plan)).toEqual([]);
  expect(plan[0]).toMatch(/^Finalize /u);
  expect(plan).toContain("->  Parallel Hash Full Join");
});

test("reads the rows of changed keys in a parallel plan", async () => {
  const { statements, plan } = await db.preview(async (session) => {
    const keys = await openKeys(session, resolve);
    expect(await findCandidates(session, db.names, resolve, keys)).toEqual([]);
    await allowParallel(session);
    const query = vi.spyOn(session.client, "query");
    const reading = { type: "resolve", ranked: false, isSharded: false } as const;
    await openLocalInput(session, resolve.input, { ...reading, among: { query: TO_CLASSIFY } });
    expect(await session.rows(sql`SELECT count(*) AS rows FROM pg_temp.candidate_row`)).toEqual([
      { rows: 60_000 },
    ]);
    const sent = query.mock.calls.map(([statement]) => textOf(statement));
    query.mockRestore();
    // As in the statement above.
    await session.client.query("SET LOCAL parallel_tuple_cost = 0");
    const filter = `SELECT email FROM crm.people WHERE id IN (${TO_CLASSIFY})`;
    return { statements: sent, plan: await planOf(session, filter) };
  });
  const created = statements.filter((text) => text.startsWith('CREATE TEMP TABLE "candidate_row"'));
  expect(created).toHaveLength(1);
  // Postgres refuses an INSERT in a parallel plan, so other plans fill an empty table.
  expect(created[0]).not.toContain("WITH NO DATA");
  // The workers filter; otherwise all rows would pass to the leader.
  expect(plan[0]).toMatch(/^Gather/u);
});

/** Text of a statement, as it is passed to the driver. */
function textOf(statement: unknown): string {
  const hasText = typeof statement === "object" && statement !== null && "text" in statement;
  return String(hasText ? statement.text : statement);
}

/** Rows of `lookup_state` that the session has read so far. */
async function statesRead(session: Session): Promise<number> {
  const [read] = await session.rows<{ readonly tuples: number }>(sql`
    SELECT seq_tup_read + idx_tup_fetch AS tuples FROM pg_stat_xact_user_tables WHERE relname = 'lookup_state'`);
  return read?.tuples ?? 0;
}

test("finds an answer to reuse without reading every state", async () => {
  await context.sql("ANALYZE person_data_state.lookup_state");
  const found = await db.preview(async (session) => {
    await session.client.query(`CREATE TEMP TABLE due_row ON COMMIT DROP AS
      SELECT 'new' AS source_key, 'never_answered' AS class, NULL AS prior, sha256('77') AS input_hash, sha256('77') AS sent_hash,
        NULL::bytea AS fingerprint;
      ANALYZE pg_temp.due_row`);
    const before = await statesRead(session);
    const counts = await takeReusable(session, db.names, resolve, null);
    return { counts, read: (await statesRead(session)) - before };
  });
  // Both jobs sent this content.
  expect(found).toEqual({ counts: [{ prior: null, outcome: "matched", rows: 1 }], read: 2 });
});
