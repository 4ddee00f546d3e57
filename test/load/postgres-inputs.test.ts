import { beforeEach, describe, expect, test } from "vitest";
import { openWarehouse } from "../support/bound-load.ts";
import { ODD_SETTINGS } from "./odd-settings.ts";
import { useContext } from "./postgres-context.ts";
import { gist, matchAll, runNight } from "./suite/nights.ts";
import { enrichSpec, people, validateSpec } from "./suite/people.ts";
import { columnOf, type Context } from "./suite/context.ts";
import type { LookupSpec } from "../../src/load/lookups/lookup.ts";
import type { InputSource } from "../../src/load/inputs/input.ts";

const context = useContext();

const over = (changes: Partial<InputSource>): LookupSpec => enrichSpec({ input: { ...people, ...changes } });

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** The same warehouse, with a role that has unusual settings. */
async function withOddSettings(work: (other: Context) => Promise<void>): Promise<void> {
  const name = new URL(context.url).pathname.slice(1);
  for (const setting of ODD_SETTINGS) await context.sql(`ALTER DATABASE ${name} SET ${setting}`);
  const warehouse = openWarehouse({ url: context.url });
  try {
    await work({ ...context, warehouse });
  } finally {
    await warehouse.close();
    await context.sql(`ALTER DATABASE ${name} RESET ALL`);
  }
}

describe("a key", () => {
  test("of columns of every type is one text, under any session settings", async () => {
    await context.sql("CREATE TYPE crm.mood AS ENUM ('so so'); CREATE DOMAIN crm.whole AS numeric");
    /** Type, value in SQL and text of each column. */
    const columns = [
      ["int", "-42", "-42"],
      ["uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
      ["numeric", "1.50", "1.5"],
      ["numeric(12, 4)", "100", "100"],
      ["double precision", "0.1", "0.1"],
      ["real", "0.1", "0.1"],
      ["timestamptz", "'2026-03-29 02:30:00.123456+01'", "2026-03-29 01:30:00.123456+00"],
      ["timestamp", "'2026-03-29 02:30:00.5'", "2026-03-29 02:30:00.5"],
      ["date", "'2026-03-04'", "2026-03-04"],
      ["interval", "'1 day 02:03:04'", "1 day 02:03:04"],
      ["text", `'it''s "a" [1,2] \\n {x} é'`, `it's "a" [1,2] \\n {x} é`],
      ["varchar(10)", "' a '", " a "],
      ["char(10)", "'abc'", "abc"],
      ["bytea", "'\\x00ff41'", "\\x00ff41"],
      ["boolean", "true", "true"],
      ["crm.mood", "'so so'", "so so"],
      ["crm.whole", "7.0", "7"],
      ["inet", "'10.0.0.1'", "10.0.0.1/32"],
      ["int[]", "'{1,2}'", "{1,2}"],
    ] as const;
    const key = columns.map((_, i) => `k${i}`);
    await context.sql(`CREATE TABLE crm.typed (email text, ${columns.map(([type], i) => `k${i} ${type}`).join(", ")});
      INSERT INTO crm.typed VALUES ('a@example.com', ${columns.map(([, value]) => value).join(", ")})`);
    const spec = over({ relation: { table: ["crm", "typed"] }, key, fields: { emails: ["email"] } });
    await runNight(context, spec, matchAll);
    const [text] = await columnOf(context, "SELECT source_key FROM person_data_state.lookup_row");
    expect(JSON.parse(text ?? "")).toEqual(columns.map(([, , shown]) => shown));
    await context.sql("UPDATE crm.typed SET k2 = 1.5000");
    await withOddSettings(async (other) => {
      expect(gist((await runNight(other, spec)).counts)).toEqual({ read: 1, unchanged: 1 });
    });
  });

  test("that is unique in each table of an inheritance tree is not unique in their union", async () => {
    await context.sql("CREATE TABLE crm.parent (id text PRIMARY KEY, email text)");
    await context.sql("CREATE TABLE crm.child () INHERITS (crm.parent)");
    await context.sql("INSERT INTO crm.parent VALUES ('1', 'a@example.com')");
    await context.sql("INSERT INTO crm.child VALUES ('1', 'b@example.com')");
    const spec = over({ relation: { table: ["crm", "parent"] }, fields: { emails: ["email"] } });
    const { sent, counts } = await runNight(context, spec, matchAll);
    expect(sent).toEqual({ 1: { emails: ["a@example.com"] } });
    expect(gist(counts)).toMatchObject({ read: 2, rejectedBeforeSending: 1 });
  });
});

describe("mapped columns", () => {
  test("of any type are sent as the same text under any settings", async () => {
    await context.sql(`CREATE TABLE crm.typed (id int PRIMARY KEY, a timestamptz, b double precision, c bytea, d numeric);
      INSERT INTO crm.typed VALUES (1, '2026-01-01 12:00:00.5+00', 0.30000000000000004, '\\x4142', 1.50)`);
    const fields = { first_name: ["a"], middle_name: ["b"], last_name: ["c"], city: ["d"] };
    const spec = over({ relation: { table: ["crm", "typed"] }, fields });
    const { sent } = await runNight(context, spec, matchAll);
    const record = {
      first_name: "2026-01-01 12:00:00.5+00",
      middle_name: "0.30000000000000004",
      last_name: "\\x4142",
    };
    expect(sent).toEqual({ 1: { ...record, city: "1.50" } });
    await withOddSettings(async (other) => {
      expect(gist((await runNight(other, spec)).counts)).toEqual({ read: 1, unchanged: 1 });
      await runNight(other, { ...spec, resend: true }, matchAll);
    });
    expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 1, unchanged: 1 });
  });

  test("that are arrays become lists without nulls and blanks", async () => {
    await context.sql(
      `CREATE TABLE crm.lists (id int PRIMARY KEY, mails text[], more varchar(40)[], tel text)`,
    );
    await context.sql(`INSERT INTO crm.lists VALUES
      (1, ARRAY['a@example.com', NULL, ' ', 'NULL', 'b,"c"@example.com', '{x}'], ARRAY['d@example.com'], '5550100'),
      (2, NULL, '{}', '5550101'), (3, '{{a,b},{c,d}}', NULL, NULL), (4, '{}', ARRAY['', NULL], NULL)`);
    const relation = { table: ["crm", "lists"] };
    const fields = { emails: ["mails", "more"], phones: ["tel"] };
    const spec = over({ relation, fields });
    const { sent, counts } = await runNight(context, spec, matchAll);
    expect(sent).toEqual({
      1: {
        emails: ["a@example.com", "NULL", 'b,"c"@example.com', "{x}", "d@example.com"],
        phones: ["5550100"],
      },
      2: { phones: ["5550101"] },
      3: { emails: ["a", "b", "c", "d"] },
    });
    expect(gist(counts)).toMatchObject({ rejectedBeforeSending: 1 });
    await withOddSettings(async (other) => {
      expect(gist((await runNight(other, spec)).counts)).toEqual({ read: 4, unchanged: 4 });
    });
    await context.sql("UPDATE crm.lists SET mails = array_append(mails, 'z@example.com') WHERE id = 2");
    expect(Object.keys((await runNight(context, spec, matchAll)).sent)).toEqual(["2"]);
    const input = { ...people, relation, fields: { emails: ["mails", "more"] } };
    expect(Object.keys((await runNight(context, validateSpec({ input }), matchAll)).sent)).toContain("{x}");
  });

  test("with a collation that ignores case keep their values apart", async () => {
    await context.sql(
      `CREATE COLLATION crm.ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
    );
    await context.sql(
      `CREATE TABLE crm.loose (id text COLLATE crm.ignore_case, email text COLLATE crm.ignore_case)`,
    );
    await context.sql(
      "INSERT INTO crm.loose VALUES ('a', 'Ann@example.com'), ('A', 'ann@example.com'), ('b', '\u00A0')",
    );
    const relation = { table: ["crm", "loose"] };
    const input = { ...people, relation, fields: { emails: ["email"] } };
    const { sent, counts } = await runNight(context, enrichSpec({ input }), matchAll);
    expect(sent).toEqual({ a: { emails: ["Ann@example.com"] }, A: { emails: ["ann@example.com"] } });
    expect(gist(counts)).toMatchObject({ rejectedBeforeSending: 1 });
    const validated = await runNight(context, validateSpec({ input }), matchAll);
    expect(Object.keys(validated.sent).toSorted()).toEqual(["Ann@example.com", "ann@example.com"]);
    await context.sql(
      "UPDATE crm.loose SET email = 'ANN@example.com' WHERE email = 'Ann@example.com' COLLATE \"C\"",
    );
    expect(gist((await runNight(context, enrichSpec({ input }), matchAll)).counts)).toMatchObject({
      dueReasons: { content_changed: 1 },
    });
  });
});

describe("names of tables and columns", () => {
  test.each([
    ["quotes, blanks and capitals", 'The "Odd" Table', 'Key "1"', "E Mail; --"],
    ["63 bytes", "t".repeat(63), "k".repeat(63), "é".repeat(31)],
    ["our own", "raw_row", "source_key", "p0"],
    ["other signs", "select $1 %s", "a.b", "c'd\\"],
  ])("can have %s", async (_, table, key, email) => {
    const name = `crm.${quote(table)}`;
    await context.sql(`CREATE TABLE ${name} (${quote(key)} int PRIMARY KEY, ${quote(email)} text)`);
    await context.sql(`INSERT INTO ${name} VALUES (7, 'a@example.com'), (8, NULL)`);
    const input = { ...people, relation: { table: ["crm", table] }, key: [key], fields: { emails: [email] } };
    expect(await context.warehouse.checkInput(input)).toEqual([]);
    const spec = enrichSpec({ input: { ...input, orderBy: quote(key) }, maxRecords: 5 });
    expect((await runNight(context, spec, matchAll)).sent).toEqual({ 7: { emails: ["a@example.com"] } });
    expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 2, unchanged: 2 });
  });
});

describe("checkInput", () => {
  const input: InputSource = { ...people, fields: { emails: ["email"], first_name: ["first_name"] } };
  beforeEach(async () => {
    await context.sql(
      "CREATE TABLE crm.people (id int, email text, first_name text, nicknames text[], updated_at date)",
    );
  });

  test("reports every missing column at once, with the likely name", async () => {
    const problems = await context.warehouse.checkInput({
      ...input,
      key: ["ID"],
      fields: { emails: ["Email"], first_name: ["forename"] },
    });
    const all = "Its columns are: id, email, first_name, nicknames, updated_at.";
    expect(problems.map(({ path, hint }) => [path, hint])).toEqual([
      ["inputs.people.key", `Did you mean id? ${all}`],
      ["inputs.people.fields.emails", `Did you mean email? ${all}`],
      ["inputs.people.fields.first_name", all],
    ]);
  });

  test.each<[Partial<InputSource>, string, string]>([
    [
      { relation: { sql: "SELECT * FROM crm.peopel" } },
      "sql",
      "Create the table, or correct `sql:`; a table outside the search path needs its schema.",
    ],
    [{ relation: { sql: "SELEC 1" } }, "sql", "Correct the SQL; run it in psql to locate the error."],
    [
      { relation: { sql: "SELECT 1/0 AS id" } },
      "sql",
      "Correct the SQL; run it in psql to locate the error.",
    ],
    [
      { relation: { sql: "SELECT 1 AS id, email, email FROM crm.people" }, fields: { emails: ["email"] } },
      "",
      "Give each column of the query its own name.",
    ],
    [
      { where: "id = 1", orderBy: "nonsense" },
      "order_by",
      "Correct it: columns as after ORDER BY in SQL, such as updated_at DESC.",
    ],
    [
      { where: "id == 1", fields: {} },
      "where",
      "In SQL, = compares, not ==. Correct it: a condition as after WHERE in SQL, such as country = 'US'.",
    ],
    [
      { fields: { first_name: ["nicknames"] } },
      "fields.first_name",
      "Map a column of single values; only emails and phones take lists.",
    ],
  ])("reports the one problem of %j, its path and what to do", async (change, setting, hint) => {
    const path = ["inputs.people", setting].filter(Boolean).join(".");
    expect(await context.warehouse.checkInput({ ...input, ...change })).toMatchObject([{ path, hint }]);
  });

  test.each([
    [["crm", "peopel"], "Create the table, or correct `table:`: did you mean crm.people?"],
    [["public", "people"], "Create the table, or correct `table:`: did you mean crm.people?"],
    [["people"], "A table outside the search path needs its schema: did you mean crm.people?"],
    [["CRM", "PEOPLE"], "Names are case-sensitive here: did you mean crm.people?"],
    [
      ["nowhere", "orders"],
      "Create the table, or correct `table:`; a table outside the search path needs its schema.",
    ],
    [["leads", "csv"], "A file is read through a connection: `connections: { files: { type: duckdb } }`"],
  ])("suggests for the missing table %j the nearest one that the role can read", async (table, hint) => {
    const [problem] = await context.warehouse.checkInput({ ...input, relation: { table } });
    expect(problem).toMatchObject({
      path: "inputs.people.table",
      message: `Can't read ${table.join(".")}: relation "${table.join(".")}" does not exist.`,
      hint: expect.stringContaining(hint),
    });
  });
});
