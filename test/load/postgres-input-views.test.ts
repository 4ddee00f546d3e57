import { afterEach, beforeEach, expect, test } from "vitest";
import { describeKey } from "../../src/load/inputs/read.ts";
import type { InputSource } from "../../src/load/inputs/input.ts";
import { readInputViews, renewInputViews, viewsOf } from "../../src/load/db/input-views.ts";
import { type KeyType, keyValues } from "../../src/schemas/views/link-input.ts";
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

/** Creates the views of an input whose key has these columns. */
async function link(key: readonly string[]): Promise<void> {
  const { db } = context.warehouse;
  const linked = { input: "customers", key: await describeKey(db, inputOf(key)) };
  await renewInputViews(db, linked);
  const stored = await db.transaction((session) => readInputViews(session, "person_data"));
  const shown = viewsOf(linked).map(({ name, columns }) => [name, columns]);
  expect(shown.map(([name]) => name)).toEqual(["link_customers", "profile_customers"]);
  expect(stored.map(({ name, columns }) => [name, columns])).toEqual(shown);
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
  ["bigint", "9223372036854775807", "bigint", "9223372036854775807"],
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
  const find = `SELECT * FROM person_data.profile_customers WHERE id = CAST('${shown}' AS ${shownType})`;
  expect(await context.sql(find)).toMatchObject([{ id: shown, service_pid: "p-a", match_score: "80.5" }]);
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

test("a missing profile is created beside a link view in use, whose rights stay", async () => {
  await context.sql("CREATE TABLE crm.customers (id integer)");
  await link(["id"]);
  await context.sql(`CREATE VIEW crm.report AS SELECT id FROM person_data.link_customers;
    GRANT SELECT ON person_data.link_customers TO pg_monitor; DROP VIEW person_data.profile_customers`);
  await link(["id"]);
  expect(
    await context.sql(`SELECT to_regclass('person_data.profile_customers') IS NOT NULL AS has_profile,
      has_table_privilege('pg_monitor', 'person_data.link_customers', 'SELECT') AS is_granted`),
  ).toEqual([{ has_profile: "true", is_granted: "true" }]);
});

test("a changed type of a view in use is an error that names what depends on it", async () => {
  await context.sql("CREATE TABLE crm.customers (id integer)");
  await link(["id"]);
  await context.sql("CREATE VIEW crm.report AS SELECT id FROM person_data.link_customers");
  await context.sql("ALTER TABLE crm.customers ALTER id TYPE uuid USING NULL");
  await expect(link(["id"])).rejects.toMatchObject({
    name: "FixConfigurationError",
    code: "view_in_use",
    message: "The key of the input customers has changed, and its views can't be created again.",
    problems: [
      {
        path: "inputs.customers.key",
        message: "now has the columns id (uuid); view crm.report depends on view person_data.link_customers",
        hint: "drop these objects, run again, and create them for the new columns",
      },
    ],
  });
  expect(await typesOf()).toContain("id bigint");
});

test("an upgrade gives each input that had a link its profile and the index, with the rights of readers", async () => {
  const role = `reader_${new URL(context.database.url).pathname.slice(1)}`;
  await context.sql(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA person_data TO ${role};
    ALTER DEFAULT PRIVILEGES IN SCHEMA person_data GRANT SELECT ON TABLES TO ${role};
    INSERT INTO person_data.enrichment (job, source, source_key, is_match, is_present, service_pid, _run_id)
      SELECT 'enrich', 'customers', n::text, true, true, 'p-' || n, 'r' FROM generate_series(1, 3000) AS n;
    CREATE VIEW person_data.link_customers AS SELECT CASE WHEN source_key ~ '^-?([0-9]{1,18}|[1-8][0-9]{18})$' THEN source_key::bigint END AS id,
      service_pid, match_score, matched_at FROM person_data.identity_link WHERE source = 'customers';
    CREATE VIEW crm.report AS SELECT * FROM person_data.link_customers;
    DROP INDEX person_data.segment_death_signal_by_pid;
    DELETE FROM person_data_state.schema_migration WHERE name LIKE '0013%'`);
  try {
    expect(await context.warehouse.migrate()).toEqual(["0013-profiles-of-inputs"]);
    await context.sql(`SET ROLE ${role}`);
    expect(
      await context.sql("SELECT id, service_pid FROM person_data.profile_customers WHERE id = 7"),
    ).toEqual([{ id: "7", service_pid: "p-7" }]);
    await context.sql("RESET ROLE");
    const plan = await context.sql("EXPLAIN SELECT * FROM crm.report WHERE id = 7");
    expect(plan.map((row) => row["QUERY PLAN"])).toContainEqual(
      expect.stringMatching(/Index Scan using enrichment_by_integer on enrichment {2}\(.* rows=1 /u),
    );
  } finally {
    await context.sql(`RESET ROLE; DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
  }
});

test.each([
  [55, [60, 63]],
  [56, [61]],
  [58, [63]],
  [59, []],
])(
  "an input with a name of %i characters has views with names of %j, as Postgres takes them",
  (length, lengths) => {
    const views = viewsOf({ input: "x".repeat(length), key: [{ name: "id", type: "text" }] });
    expect(views.map(({ name }) => name.length)).toEqual(lengths);
  },
);

test("a key column named like one of the profile is called key_ there", async () => {
  await context.sql("CREATE TABLE crm.customers (email_address text)");
  await match("a@x.example");
  await link(["email_address"]);
  expect(
    await context.sql(`SELECT l.email_address, p.key_email_address, p.email_address AS best
      FROM person_data.link_customers AS l JOIN person_data.profile_customers AS p USING (service_pid)`),
  ).toEqual([{ email_address: "a@x.example", key_email_address: "a@x.example", best: null }]);
});

const AT = "timestamp '0001-01-01' + n * interval '233 days 7 hours 31 minutes 17.000123 seconds'";

test.each<[KeyType, string]>([
  ["date", `CAST(${AT} AS date)`],
  ["timestamp", AT],
  ["timestamptz", `(${AT}) AT TIME ZONE 'UTC'`],
])("every %s of four digits for the year is read from its text", async (type, value) => {
  const [read] = keyValues("postgres", [{ type }]);
  expect(
    await context.sql(`SELECT min(value) AS first, max(value)::date AS last, count(*) FILTER (WHERE ${read} IS DISTINCT FROM value) AS wrong
      FROM (SELECT value, value::text AS source_key FROM generate_series(0, 15600) AS n, LATERAL (SELECT ${value} AS value) AS v) AS keys`),
  ).toMatchObject([{ first: expect.stringContaining("0001-01-01"), last: "9966-02-17", wrong: "0" }]);
});

test.each<[KeyType, readonly string[]]>([
  ["integer", ["", "-", "1.5", "--1", "1e3", "9223372036854775808", "-9223372036854775809", "9".repeat(20)]],
  ["uuid", ["", "0b8e4f0c6f0e4c6e9f0e0b8e4f0c6f0e", "0b8e4f0c-6f0e-4c6e-9f0e-0b8e4f0c6f0g"]],
  ["date", ["infinity", "10000-01-01", "0044-03-15 BC", "2026-01-0x", "2026-01-01 00:00:00"]],
  ["timestamp", ["infinity", "2026-01-01", "2026-01-01 00:00:00+00", "2026-01-01 00:00:00.1.2"]],
  ["timestamptz", ["-infinity", "2026-01-01 00:00:00", "2026-01-01 00:00:00+01", "2026-01-01 00:00:00+0+00"]],
])("texts that are no %s are null", async (type, texts) => {
  const [read] = keyValues("postgres", [{ type }]);
  const rows = await context.sql(`SELECT ${read} AS value FROM unnest($1::text[]) AS source_key`, [texts]);
  expect(rows).toEqual(texts.map(() => ({ value: null })));
});

test("the largest integers are read", async () => {
  const [read] = keyValues("postgres", [{ type: "integer" }]);
  const texts = ["9223372036854775807", "-9223372036854775808", "1000000000000000000", "-0", "007"];
  const rows = await context.sql(`SELECT ${read} AS value FROM unnest($1::text[]) AS source_key`, [texts]);
  expect(rows.map(({ value }) => value)).toEqual([...texts.slice(0, 3), "0", "7"]);
});

test.each<KeyType>(["date", "timestamp", "timestamptz"])(
  "texts of the form of a %s that are none can be stored",
  async (type) => {
    const [read] = keyValues("postgres", [{ type }]);
    const [nines, texts] = ["9".repeat(900), ["0000-00-00", "9999-99-99"]];
    for (const rest of ["", `.${nines}`, nines, `${nines}+00`]) texts.push(`2026-02-30 99:99:99${rest}`);
    expect(
      await context.sql(`SELECT ${read} AS value FROM unnest($1::text[]) AS source_key`, [texts]),
    ).toHaveLength(6);
  },
);

test("a composite key is read from every JSON array of as many texts, and from nothing else", async () => {
  const [read] = keyValues("postgres", [{ type: "text" }, { type: "text" }]);
  const good = [
    ["a", "b"],
    ['"', "\\"],
    ["\n\t\u0001", "x"],
    ["[", "é😀\u007f"],
  ];
  const bad = [
    "",
    "[]",
    '["a"]',
    '["a", "b", "c"]',
    '["a", b]',
    '["a", "b',
    '["a\\", "b"]',
    '["\\u0000", "b"]',
  ];
  const keys = await context.sql(
    "SELECT json_build_array(k ->> 0, k ->> 1)::text AS key FROM json_array_elements($1::json) AS k",
    [JSON.stringify(good)],
  );
  const texts = [...keys.map(({ key }) => key ?? ""), ...bad];
  const rows = await context.sql(
    `SELECT ${read} AS value FROM unnest($1::text[]) WITH ORDINALITY AS t(source_key, n) ORDER BY n`,
    [texts],
  );
  expect(rows.map(({ value }) => value)).toEqual([...good.map(([first]) => first), ...bad.map(() => null)]);
});
