import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { castSourceKey, classifyRow, findSourceKey } from "../../src/load/lookups/explain-row.ts";
import type { LookupSpec } from "../../src/load/lookups/lookup.ts";
import { createDatabase, type TestDatabase } from "../support/fresh-database.ts";
import { connectAsText, openPostgresContext, type PostgresContext } from "./postgres-context.ts";
import { clear } from "./suite/context.ts";
import { matchAll, runNight } from "./suite/nights.ts";
import { enrichSpec, makePeople, people, resolveSpec, validateSpec } from "./suite/people.ts";

let context: PostgresContext;
let elsewhere: TestDatabase;
beforeAll(async () => {
  context = await openPostgresContext();
  elsewhere = await createDatabase();
});
beforeEach(() => clear(context));
afterAll(async () => {
  await context.close();
  await elsewhere.release();
});

const ann = { id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" };

/** Classes and records of the rows with a key. */
async function classesOf(spec: LookupSpec, ...key: readonly string[]) {
  const sourceKey =
    key.length === 1 ? (key[0] ?? "") : `[${key.map((value) => JSON.stringify(value)).join(", ")}]`;
  const { rows } = await classifyRow(context.warehouse.db, spec, { key, sourceKey });
  return rows.map((row) => [row.class, row.record]);
}

test("a row has the class that the run gives it", async () => {
  await makePeople(context, [ann, { ...ann, id: "2", first_name: "Bob" }]);
  const record = '{"emails":["ann@example.com"],"first_name":"Ann","last_name":"Lee"}';
  expect(await classesOf(enrichSpec(), "1")).toEqual([["never_answered", record]]);
  await runNight(context, enrichSpec(), matchAll);
  expect(await classesOf(enrichSpec(), "1")).toEqual([["unchanged", record]]);
  expect(await classesOf(enrichSpec({ kind: "enrich:others" }), "1")).toEqual([
    ["parameters_changed", record],
  ]);
  expect(await classesOf(enrichSpec({ pidFrom: "resolve_people" }), "1")).toEqual([
    ["waiting", expect.anything()],
  ]);
  expect(await classesOf(validateSpec(), "1")).toEqual([["never_answered", '"ann@example.com"']]);
  expect(await classesOf(enrichSpec(), "3")).toEqual([]);
});

test("of the rows with one key, all but one are duplicates of the key", async () => {
  await makePeople(context, [ann, { ...ann, first_name: "Zoe" }, { id: "2", first_name: "Bob" }]);
  expect((await classesOf(enrichSpec(), "1")).map(([found]) => found)).toEqual([
    "never_answered",
    "reject:duplicate_key",
  ]);
  expect((await classesOf(resolveSpec(), "2")).map(([found]) => found)).toEqual(["reject:not_resolvable"]);
});

test("a composite key of another database is found by equal values, however they are written", async () => {
  const there = await connectAsText(elsewhere.url);
  await there.query(`CREATE TABLE people (tenant numeric, code char(6), first_name text, last_name text, email text, phone text,
    PRIMARY KEY (tenant, code)); INSERT INTO people VALUES (3, 'it''s', 'Ann', 'Lee', 'ann@example.com', NULL)`);
  await there.end();
  const input = {
    ...people,
    relation: { table: ["people"] },
    key: ["tenant", "code"],
    where: "tenant > 0 -- all",
    connection: { type: "postgres", name: "crm", url: elsewhere.url },
  } as const;
  const { db } = context.warehouse;
  const find = (...key: readonly string[]) =>
    findSourceKey(db, input, { key, sourceKey: JSON.stringify(key) });
  expect(await find("3.0", "it's")).toBe('["3", "it\'s"]');
  expect(await find("3", "other")).toBe(null);
  const cast = (...key: readonly string[]) =>
    castSourceKey(db, input, { key, sourceKey: JSON.stringify(key) });
  expect(await cast("03.50", "other")).toBe('["3.5", "other"]');
  await expect(find("three", "other")).rejects.toMatchObject({ code: "bad_key" });
  expect(await classesOf(enrichSpec({ input }), "3", "it's")).toEqual([
    ["never_answered", '{"emails":["ann@example.com"],"first_name":"Ann","last_name":"Lee"}'],
  ]);
});
