import { beforeEach, expect, test } from "vitest";
import type { InputConnection, InputSource } from "../../src/load/inputs/input.ts";
import { open } from "./bare-database.ts";
import { useContext } from "./postgres-context.ts";
import { runNight } from "./suite/nights.ts";
import { enrichSpec, people } from "./suite/people.ts";
import { columnOf } from "./suite/context.ts";

const context = useContext();
beforeEach(async () => {
  await context.sql(`CREATE SCHEMA IF NOT EXISTS crm; CREATE TABLE crm.rows (id text PRIMARY KEY, email text);
    INSERT INTO crm.rows VALUES ('1', 'a@example.com'); CREATE TABLE crm.notes (note text);
    CREATE FUNCTION crm.note_it() RETURNS boolean LANGUAGE plpgsql AS
    'BEGIN INSERT INTO crm.notes VALUES (''written''); RETURN true; END'`);
});

const source = (changes: Partial<InputSource>): InputSource => ({
  ...people,
  relation: { table: ["crm", "rows"] },
  key: ["id"],
  fields: { emails: ["email"] },
  ...changes,
});
/** The warehouse itself, and the same database as a connection. */
const connections = (): readonly (InputConnection | null)[] => [
  null,
  { type: "postgres", name: "crm", url: context.url },
];

const SECOND = "CREATE TABLE crm.pwned AS SELECT now()";

test.each<Partial<InputSource>>([
  { where: `true); COMMIT; ${SECOND}; COMMIT; BEGIN; SELECT (1` },
  { where: `true) LIMIT 0; ${SECOND}; --` },
  { relation: { sql: `SELECT '1' AS id, 'a' AS email) AS x; ${SECOND}; SELECT FROM (SELECT 1` } },
  { orderBy: `1) AS rank FROM crm.rows; ${SECOND}; SELECT row_number() OVER (ORDER BY 1` },
  {
    orderBy: `1) AS rank FROM crm.rows AS input_row) TO STDOUT; ${SECOND}; COPY (SELECT row_number() OVER (ORDER BY 1`,
  },
])("%j is refused as a second statement, by check and by a run", async (changes) => {
  for (const connection of connections()) {
    const input = source({ ...changes, connection });
    expect(await open(context.url).checkInput(input)).toHaveLength(1);
    await expect(runNight(context, enrichSpec({ input, maxRecords: 5 }))).rejects.toThrow(/statement|syntax/);
  }
  expect(await columnOf(context, "SELECT to_regclass('crm.pwned')")).toEqual([null]);
});

test("a query that writes is refused, and what a run itself writes isn't", async () => {
  for (const connection of connections()) {
    const input = source({ where: "crm.note_it()", connection });
    await expect(runNight(context, enrichSpec({ input }))).rejects.toMatchObject({
      code: "inputs",
      message: expect.stringContaining("It may only read."),
    });
    expect(await columnOf(context, "SELECT count(*) FROM crm.notes")).toEqual(["0"]);
  }
  const { counts } = await runNight(context, enrichSpec({ input: source({}) }));
  expect(counts.toSend).toBe(1);
});

test("a query that writes is refused in a parallel plan, too", async () => {
  await context.sql(`ALTER TABLE crm.rows SET (parallel_workers = 2);
    ALTER FUNCTION crm.note_it() PARALLEL SAFE COST 1000000`);
  const spec = enrichSpec({ input: source({ where: "crm.note_it()" }) });
  await expect(runNight(context, spec)).rejects.toThrow("during a parallel operation");
  expect(await columnOf(context, "SELECT count(*) FROM crm.notes")).toEqual(["0"]);
  await context.sql(`CREATE OR REPLACE FUNCTION crm.note_it() RETURNS boolean LANGUAGE plpgsql PARALLEL SAFE COST 1000000 AS
    'BEGIN RETURN true; END'`);
  const { counts } = await runNight(context, spec);
  expect(counts.toSend).toBe(1);
});

test("check warns of a server whose log holds the values of statements", async () => {
  const database = new URL(context.url).pathname.slice(1);
  const warnings = async () =>
    (await open(context.url, ["a", "b", "c"]).checkDatabase()).flatMap(({ ok, message, hint }) =>
      ok && hint ? [message] : [],
    );
  expect(await warnings()).toEqual([]);
  await context.sql(`ALTER DATABASE ${database} SET log_min_duration_statement = 1000`);
  expect(await warnings()).toEqual([
    "Statements are logged with their values: people's data and the erasure key.",
  ]);
  await context.sql(`ALTER DATABASE ${database} SET log_parameter_max_length = 0`);
  expect(await warnings()).toEqual([]);
});
