import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { parse } from "yaml";
import { profileFindings, sqlSetting } from "../../src/cli/commands/check-inputs.ts";
import { readSourceOf } from "../../src/jobs/sources.ts";
import { checksIn } from "../../src/load/inputs/postgres-profile.ts";
import { profileOf } from "../../src/load/inputs/profile.ts";
import { sampleInput } from "../../src/load/inputs/read.ts";
import { load } from "../config/support.ts";
import { openPostgresContext, type PostgresContext } from "../load/postgres-context.ts";
import { clear } from "../load/suite/context.ts";

let context: PostgresContext;
beforeAll(async () => {
  context = await openPostgresContext();
});
beforeEach(() => clear(context));
afterAll(() => context.close());

/** Opens the input of a configuration with these lines. */
async function inputOf(lines: readonly string[]) {
  const config = await load(
    `service: { base_url: sandbox }
warehouse: { url: embedded }
inputs:
  customers:
    ${lines.join("\n    ")}
jobs:
  enrich_customers: { type: enrich, input: customers }
`,
    { env: {} },
  );
  const { customers } = config.inputs;
  if (!customers) throw new Error("the configuration has no input");
  return await readSourceOf(customers, config).open();
}

/** Findings about the input of these lines, each with its hint; none has a value of a row. */
async function findingsOf(lines: readonly string[]): Promise<readonly string[]> {
  const input = await inputOf(lines);
  const sample = await sampleInput(context.warehouse.db, input);
  const findings = profileFindings("customers", input, profileOf(sample, input.normalize));
  const values = sample.columns.flatMap((column) => column.values.flat()).filter(({ length }) => length > 3);
  const printed = JSON.stringify(findings);
  expect(values.filter((value) => printed.includes(value))).toEqual([]);
  return findings
    .filter(({ status }) => status !== "ok")
    .flatMap(({ message, hint }) => (hint === undefined ? [message] : [message, `→ ${hint}`]));
}

/** Sampled values of each mapped column, by field. */
async function valuesOf(lines: readonly string[]): Promise<Readonly<Record<string, unknown>>> {
  const { columns } = await sampleInput(context.warehouse.db, await inputOf(lines));
  return Object.fromEntries(columns.map(({ field, values }) => [field, values]));
}

test.each([
  ["zipcode", "zip", "integer", "7030", "integer, so leading zeros are lost", ["07030"]],
  ["zipcode", "zip", "bigint", "70301234", "bigint, so leading zeros are lost", ["070301234"]],
  ["zipcode", "zip", "numeric(7,2)", "7030", "numeric, so leading zeros are lost", ["07030"]],
  ["zipcode", "zip", "text", "'7030'", "100.0% of its values have fewer than 5 digits", ["07030"]],
  [
    "phones",
    "phone",
    "double precision",
    "12125550142000000",
    "100.0% of its values are sent with a decimal point or exponent (double precision)",
    ["12125550142000000"],
  ],
  [
    "phones",
    "contacts",
    "jsonb[]",
    `ARRAY['{"type": "work", "id": 7, "phone": "+1 (212) 555-0142 x7", "since": "2026-01-02T03:04:05Z", "zip": "94110"}',
      '{"phone": "unlisted", "note": "call Eve2125550143"}']::jsonb[]`,
    "jsonb[], sent as JSON text",
    ["+1 (212) 555-0142 x7"],
  ],
  [
    "emails",
    "mails",
    "jsonb",
    `'[{"type": "work", "id": 7, "address": "a@b.example"}, {"of": {"Ann@x": "Ann"}, "to": ["é+1@b.example"], "note": "asked a@b.example"}]'`,
    "jsonb, sent as JSON text",
    ["a@b.example", "é+1@b.example"],
  ],
  [
    "emails",
    "mails",
    "text",
    `'{a@example.com,b@example.com}'`,
    "100.0% of its values are lists written as text",
    ["", "a@example.com", "b@example.com", ""],
  ],
  [
    "emails",
    "mails",
    "text",
    `'a@example.com; b@example.com'`,
    "100.0% of its values hold several addresses",
    ["a@example.com", "b@example.com"],
  ],
  ["city", "analyse: #1, all", "bytea", `'Austin'`, "bytea, sent in hexadecimal", ["Austin"]],
])("%s from %s %s: the proposed lines fix it", async (field, column, type, value, fact, expected) => {
  await context.sql(
    `CREATE TABLE crm.customers (id int PRIMARY KEY, "${column}" ${type}); INSERT INTO crm.customers VALUES (1, ${value})`,
  );
  const found = await findingsOf([
    "table: crm.customers",
    "key: id",
    `fields: { ${field}: ${JSON.stringify(column)} }`,
  ]);
  expect(found[0]).toBe(`${column}: ${fact}`);
  const [mapping = ""] = /(?<=`)[^`]+(?=`, with the query below)/u.exec(found[1] ?? "") ?? [];
  expect(found[2]).toBe("table: to convert 1 column, use a query instead:");
  const fixed = [(found[3] ?? "").replace("→ ", ""), "key: id", `fields: { ${mapping} }`];
  expect(await findingsOf(fixed)).toEqual([]);
  expect(await valuesOf(fixed)).toEqual({ [field]: [expected] });
});

test("a column that can't be converted has to be replaced", async () => {
  await context.sql("CREATE TABLE crm.customers (id int PRIMARY KEY, born date, town text, home jsonb)");
  await context.sql(`INSERT INTO crm.customers VALUES (1, '1980-01-02', '(Austin,TX)', '{"state": "TX"}')`);
  const fields = "fields: { full_name: born, city: town, state: home }";
  expect(await findingsOf(["table: crm.customers", "key: id", fields])).toEqual([
    "town: 100.0% of its values are JSON or records written as text",
    "→ map another column to `city`; a view can select or convert the right value",
    "born: date, not text",
    "→ map another column to `full_name`; a view can select or convert the right value",
    "home: jsonb, sent as JSON text",
    "→ map another column to `state`; a view can select or convert the right value",
  ]);
});

test("enums, fixed-length texts and lists of texts are no problem", async () => {
  await context.sql(`CREATE TYPE crm.state AS ENUM ('TX'); CREATE TABLE crm.customers (id int PRIMARY KEY, state crm.state,
    zip char(5), mails text[], phone bigint, pid uuid);
    INSERT INTO crm.customers VALUES (1, 'TX', '07030', '{a@example.com,b@example.com}', 12125550142, '11111111-1111-4111-8111-111111111111')`);
  const fields = "fields: { state: state, zipcode: zip, emails: mails, phones: phone, service_pid: pid }";
  expect(await findingsOf(["table: crm.customers", "key: id", fields])).toEqual([]);
});

test("a query gets a list of the columns to return", async () => {
  await context.sql(
    "CREATE TABLE crm.customers (id int PRIMARY KEY, zip int); INSERT INTO crm.customers VALUES (1, 7030)",
  );
  expect(
    await findingsOf(["sql: select * from crm.customers", "key: id", "fields: { zipcode: zip }"]),
  ).toEqual([
    "zip: integer, so leading zeros are lost",
    "→ `zipcode: zip_zipcode`, with the columns below",
    "sql: to convert 1 column, let it also return:",
    `→ lpad("zip"::bigint::text, 5, '0') as "zip_zipcode"`,
  ]);
});

const TEN = `CREATE TABLE crm.customers (id int, name text, updated_at timestamptz);
  INSERT INTO crm.customers SELECT i, 'Ann', '2026-01-01' FROM generate_series(1, 98) AS i`;

test("few repeated and missing keys are a warning, many a problem", async () => {
  await context.sql(TEN);
  await context.sql("INSERT INTO crm.customers VALUES (1, 'Ann', '2026-01-01'), (NULL, 'Eve', '2026-01-01')");
  const lines = ["table: crm.customers", "key: id", "fields: { full_name: name }"];
  expect(await findingsOf(lines)).toEqual([
    "key: 1 of 100 rows (1.0%) repeat the key of another row and would be rejected",
    "→ add columns to `key: id` until no two rows have the same key",
    "key: NULL in 1 of 100 rows (1.0%), which would be rejected",
    "→ `where: '\"id\" is not null'` in customers excludes them",
  ]);
  expect(await findingsOf([...lines, "where: id is not null"])).toHaveLength(2);
  await context.sql("INSERT INTO crm.customers SELECT NULL, 'Ann', '2026-01-01' FROM generate_series(1, 20)");
  const input = await inputOf(lines);
  const profile = profileOf(await sampleInput(context.warehouse.db, input), false);
  expect(profileFindings("customers", input, profile).map(({ status }) => status)).toEqual([
    "ok",
    "warning",
    "wrong",
  ]);
});

test.each([
  [
    "UNIQUE INDEX ON crm.customers (tenant, nr) INCLUDE (name)",
    "`key: [tenant, nr]`, which an index makes unique",
  ],
  [
    "UNIQUE INDEX ON crm.customers (tenant, code)",
    "add columns to `key: tenant` until no two rows have the same key",
  ],
])("with a %s, the proposed key is %s", async (index, hint) => {
  await context.sql(`CREATE TABLE crm.customers (tenant int NOT NULL, nr int NOT NULL, code int, name text); CREATE ${index};
    INSERT INTO crm.customers VALUES (1, 1, NULL, 'Ann'), (1, 2, NULL, 'Bob')`);
  const lines = ["table: crm.customers", "key: tenant", "fields: { full_name: name }"];
  expect((await findingsOf(lines))[1]).toBe(`→ ${hint}`);
});

test("of long values and lists only a part is read, and they are classified as before", async () => {
  await context.sql(`CREATE TABLE crm.customers (id int PRIMARY KEY, name text, mail text, phones text[]);
    INSERT INTO crm.customers VALUES
      (1, repeat('é', 399) || ' ' || repeat('é', 1000), '["' || repeat('a', 1000000) || '@example.com"]', array_fill(repeat('2', 100000), ARRAY[50])),
      (2, repeat('x', 300), 'ann@example.com', ARRAY[NULL, '212-555-0142']), (3, NULL, NULL, NULL)`);
  const fields = "fields: { full_name: name, emails: mail, phones: phones }";
  const lines = ["table: crm.customers", "key: id", fields];
  const { columns } = await sampleInput(context.warehouse.db, await inputOf(lines));
  const lengths = columns.map(({ field, values }) => [
    field,
    values.map((own) => own.map((text) => text.length)),
  ]);
  expect(Object.fromEntries(lengths)).toEqual({
    full_name: expect.arrayContaining([[399], [300], []]),
    emails: expect.arrayContaining([[400], [15], []]),
    phones: expect.arrayContaining([Array.from({ length: 10 }, () => 400), [12], []]),
  });
  const findings = await findingsOf(lines);
  expect(findings).toContain("mail: 50.0% of its values are lists written as text");
  expect(findings).toContain("phones: 90.9% placeholders");
  expect(findings.join("\n")).not.toContain("blanks around");
});

test("rows without any value and tables without rows are reported", async () => {
  await context.sql("CREATE TABLE crm.customers (id int PRIMARY KEY, name text)");
  const lines = ["table: crm.customers", "key: id", "fields: { full_name: name }"];
  expect(await findingsOf(lines)).toEqual(["has no rows"]);
  await context.sql("INSERT INTO crm.customers VALUES (1, 'Ann'), (2, ' '), (3, NULL), (4, 'n/a')");
  expect(await findingsOf([...lines, "normalize: true"])).toEqual([
    "75.0% of the rows have no value to send and are rejected (no_identifier)",
    "→ this costs nothing; `where:` can exclude them",
  ]);
});

test("normalize is recommended with what it saves, and silences what it fixes", async () => {
  await context.sql(`CREATE TABLE crm.customers (id int PRIMARY KEY, name text, mail text); INSERT INTO crm.customers VALUES
    (1, 'Ann', 'ann@example.com'), (2, 'Ann ', 'ANN@example.com'), (3, 'Bob', 'n/a'), (4, 'Eve', 'eve')`);
  const lines = ["table: crm.customers", "key: id", "fields: { full_name: name, emails: mail }"];
  expect(await findingsOf(lines)).toEqual([
    "mail: 25.0% placeholders, 25.0% without @, 25.0% with capital letters",
    "name: 25.0% with leading or trailing spaces",
    "normalize is off; it would change or drop 50.0% of the sampled values",
    "→ `normalize: true` drops 2 of 8 sampled values and avoids sending 3 of 4 addresses and 1 of 4 records",
  ]);
  expect(await findingsOf([...lines, "normalize: true"])).toEqual([]);
});

test("a column with mostly unusable values is to be removed, with normalize only one without any other", async () => {
  await context.sql(`CREATE TABLE crm.customers (id int PRIMARY KEY, name text, fax text, mail text); INSERT INTO crm.customers VALUES
    (1, 'Ann', '-', 'n/a'), (2, 'Bob', 'n/a', 'bob'), (3, 'Eve', '556-1', 'Eve@example.com'), (4, 'Sue', NULL, NULL)`);
  const lines = ["table: crm.customers", "key: id", "fields: { full_name: name, emails: mail, phones: fax }"];
  const normalized = ["fax: 66.7% placeholders, 33.3% without 7 digits", "→ remove fax from `phones`"];
  expect((await findingsOf(lines)).slice(0, 4)).toEqual([
    "mail: 33.3% placeholders, 33.3% without @, 33.3% with capital letters",
    "→ remove mail from `emails`",
    ...normalized,
  ]);
  expect(await findingsOf([...lines, "normalize: true"])).toEqual(normalized);
});

test("a count that takes too long is reported, not failed", async () => {
  await context.sql(
    "CREATE VIEW crm.slow AS SELECT 1 AS id, 'Ann'::text AS name, pg_sleep(0.5)::text AS nap",
  );
  const slow = await inputOf(["table: crm.slow", "key: nap", "fields: { full_name: name }"]);
  const { pool, explain } = context.warehouse.db;
  expect(await checksIn(pool, explain, 100).sampleInput(slow)).toMatchObject({
    keys: null,
    sampledRows: 0,
  });
  await context.sql("CREATE VIEW crm.customers AS SELECT 1 AS id, 'Ann'::text AS name");
  const input = await inputOf(["table: crm.customers", "key: id", "fields: { full_name: name }"]);
  const sample = await sampleInput(context.warehouse.db, input);
  const findings = profileFindings("customers", input, profileOf({ ...sample, keys: null }, false));
  expect(findings.slice(1)).toEqual([
    {
      subject: "customers",
      status: "warning",
      message: "key: not verified to be unique, because counting takes more than 10 s",
      hint: "a unique index on id proves it",
    },
  ]);
});

test.each([
  [`"id" is not null`, `where: '"id" is not null'`],
  [`select "a: b" from t`, `where: 'select "a: b" from t'`],
  ["`Kd Nr` is not null", 'where: "`Kd Nr` is not null"'],
])("the SQL %j is a line that YAML reads as the same, with ${ escaped", (sql, line) => {
  expect(sqlSetting("where", sql)).toBe(line);
  expect(parse(line)).toEqual({ where: sql });
  expect(sqlSetting("where", '"${A}" > 1')).toBe(`where: '"$\${A}" > 1'`);
});
