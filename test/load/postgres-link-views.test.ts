import { afterEach, beforeEach, expect, test } from "vitest";
import { describeKey } from "../../src/load/inputs/read.ts";
import type { InputSource } from "../../src/load/inputs/input.ts";
import { readLinkViews, renewLinkView } from "../../src/load/db/link-views.ts";
import { linkView, linkViewName } from "../../src/schemas/views/link-input.ts";
import { openPostgresContext, type PostgresContext } from "./postgres-context.ts";

let context: PostgresContext;
beforeEach(async () => {
  context = await openPostgresContext();
  await context.sql("CREATE SCHEMA crm");
});
afterEach(() => context.close());

const inputOf = (key: readonly string[]): InputSource => ({
  name: "customers",
  connection: null,
  relation: { table: ["crm", "customers"] },
  where: null,
  orderBy: null,
  key,
  normalize: false,
  fields: {},
});

/** Creates the view of an input whose key has these columns. */
async function link(key: readonly string[]): Promise<void> {
  const { db } = context.warehouse;
  const view = linkView("customers", await describeKey(db, inputOf(key)));
  await renewLinkView({ db, input: "customers" }, view);
  const stored = await db.transaction((session) => readLinkViews(session, "person_data"));
  expect(stored.map(({ name, columns }) => [name, columns])).toEqual([["link_customers", view.columns]]);
}

const match = (key: string) =>
  context.sql(
    `INSERT INTO person_data.resolution (job, source, source_key, is_match, is_present, service_pid, match_score, last_matched_at, _run_id)
     VALUES ('resolve', 'customers', $1, true, true, 'p-a', 80.5, '2026-11-21 04:00:00+00', 'r')`,
    [key],
  );
const typesOf = async () =>
  (
    await context.sql(`SELECT attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
      WHERE attrelid = 'person_data.link_customers'::regclass ORDER BY attnum`)
  ).map(({ name, type }) => `${name} ${type}`);

test.each([
  ["smallint", "-7", "bigint", "-7"],
  ["bigint", "8999999999999999999", "bigint", "8999999999999999999"],
  ["uuid", "0b8e4f0c-6f0e-4c6e-9f0e-0b8e4f0c6f0e", "uuid", "0b8e4f0c-6f0e-4c6e-9f0e-0b8e4f0c6f0e"],
  ["date", "2024-02-29", "date", "2024-02-29"],
  ["timestamp", "2026-01-02 03:04:05.000006", "timestamp without time zone", "2026-01-02 03:04:05.000006"],
  ["timestamptz", "2026-01-02 03:04:05.5+00", "timestamp with time zone", "2026-01-02 03:04:05.5+00"],
  ["text", "K-1", "text", "K-1"],
  ["varchar(10)", '["odd', "text", '["odd'],
  ["numeric", "1.5", "text", "1.5"],
])("a key of type %s stored as %s is a %s", async (type, stored, shownType, shown) => {
  await context.sql(`CREATE TABLE crm.customers (id ${type})`);
  await match(stored);
  await link(["id"]);
  expect((await typesOf()).slice(0, 2)).toEqual([`id ${shownType}`, "service_pid text"]);
  expect(await context.sql("SELECT * FROM person_data.link_customers")).toEqual([
    { id: shown, service_pid: "p-a", match_score: "80.5", matched_at: "2026-11-21 04:00:00+00" },
  ]);
});

test("a composite key has its columns, and keys of an earlier form are null", async () => {
  await context.sql('CREATE TABLE crm.customers (tenant_id integer, "Kunden-Nr" text, service_pid date)');
  await match('["2", "K-000097", "2026-01-02"]');
  await match("K-000097");
  await link(["tenant_id", "Kunden-Nr", "service_pid"]);
  expect(await context.sql("SELECT * FROM person_data.link_customers ORDER BY 1")).toMatchObject([
    { tenant_id: "2", Kunden_Nr: "K-000097", key_service_pid: "2026-01-02", service_pid: "p-a" },
    { tenant_id: null, Kunden_Nr: null, key_service_pid: null, service_pid: "p-a" },
  ]);
});

test("an unchanged view isn't created again, one of a changed type is; values that don't have it are null", async () => {
  await context.sql("CREATE TABLE crm.customers (id text)");
  await match("K-1");
  await match("12");
  await link(["id"]);
  const oid = "SELECT 'person_data.link_customers'::regclass::oid AS oid";
  const before = await context.sql(oid);
  await link(["id"]);
  expect(await context.sql(oid)).toEqual(before);
  await context.sql("ALTER TABLE crm.customers ALTER id TYPE integer USING 1");
  await link(["id"]);
  expect(await context.sql("SELECT id FROM person_data.link_customers ORDER BY 1")).toEqual([
    { id: "12" },
    { id: null },
  ]);
});

test("a changed type of a view in use is an error that names what depends on it", async () => {
  await context.sql("CREATE TABLE crm.customers (id integer)");
  await link(["id"]);
  await context.sql("CREATE VIEW crm.report AS SELECT id FROM person_data.link_customers");
  await context.sql("ALTER TABLE crm.customers ALTER id TYPE uuid USING NULL");
  await expect(link(["id"])).rejects.toMatchObject({
    name: "FixConfigurationError",
    code: "view_in_use",
    message:
      "The key of the input customers has changed, and its view link_customers can't be created again.",
    problems: [
      {
        path: "inputs.customers.key",
        message: "now has the columns id (uuid); view crm.report depends on view person_data.link_customers",
        hint: "drop these objects, run again, and create them for the new columns of link_customers",
      },
    ],
  });
  expect(await typesOf()).toContain("id bigint");
});

test("an input whose name is too long for Postgres has no view", () => {
  expect(linkViewName("x".repeat(58))).toBe(`link_${"x".repeat(58)}`);
  expect(linkViewName("x".repeat(59))).toBe(null);
});
