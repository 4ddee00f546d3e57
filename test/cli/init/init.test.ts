import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createDatabase } from "../../support/fresh-database.ts";
import { runSql } from "../../support/run-sql.ts";
import { atEnd } from "../support/at-end.ts";
import { makeFolder } from "../support/cli.ts";
import { runHere, runHereJson } from "../support/in-process.ts";
import { startOnTerminal, type TerminalRun } from "../support/on-terminal.ts";

/** Tables of a CRM as they grow over the years. */
const UGLY = `CREATE SCHEMA crm;
CREATE TABLE crm."Kunden Stamm" ("Mandant" int, "KundenNr" text, "Anrede" text, "Vorname" varchar(80), "Name" text,
  "E-Mail" text, email_privat text, email_verified boolean, "Telefon" text, "Handy" bigint, "Straße" text, "Ort" text,
  "PLZ" integer, "Bundesland" text, extras jsonb, tags int[], telefone text[], "geändert_am" timestamptz,
  angelegt_am timestamptz, PRIMARY KEY ("Mandant", "KundenNr"));
INSERT INTO crm."Kunden Stamm" ("Mandant", "KundenNr", "Vorname", "Name", "E-Mail", "Telefon")
  VALUES (1, 'K-1', ' Helga', 'Kühn', 'HELGA@Example.com', 'n/a'), (1, 'K-2', 'Jürgen', 'Groß', 'test@test', NULL);
CREATE TABLE crm.contacts_backup (id int PRIMARY KEY, first_name text, last_name text, email text, phone text);
CREATE TABLE crm.newsletter (email text NOT NULL UNIQUE, subscribed_at date);
CREATE TABLE crm.products (id int PRIMARY KEY, name text, state text, price numeric)`;

async function makeDatabase(sql: string): Promise<string> {
  const database = await createDatabase();
  atEnd(() => database.release());
  await runSql(database.url, sql);
  return database.url;
}

/** Types each reply once its question is on the screen. */
async function reply(run: TerminalRun, replies: readonly (readonly [question: string, reply: string])[]) {
  for (const [question, text] of replies) {
    await run.shows(question);
    run.type(`${text}\n`);
  }
}

/** Lines of `inputs:` without comments. */
async function inputsIn(cwd: string): Promise<string> {
  const text = await readFile(join(cwd, "config.yaml"), "utf8");
  const section = /^inputs:\n[^]*?(?=^jobs:)/mu.exec(text)?.[0] ?? "";
  return section
    .replaceAll(/ {2,}#.*$/gmu, "")
    .replaceAll(/\n\s*(?=\n)/gu, "")
    .trim();
}

test.concurrent("init proposes table, composite key and fields, and Enter accepts all of them", async () => {
  const cwd = await makeFolder();
  const WAREHOUSE_URL = await makeDatabase(UGLY);
  const run = startOnTerminal(["init"], { cwd, columns: 120, env: { WAREHOUSE_URL } });
  await reply(run, [
    ["Service", ""],
    ["Warehouse", ""],
    ["Table or view", ""],
    ["Key column", ""],
    ["Change a field", ""],
    ["Trim values", ""],
  ]);
  const { code, screen } = await run.ended;
  expect(code).toBe(0);
  expect(screen.replaceAll("\r", "")).toContain(`: 4 tables and views. These look like people:
  1  crm."Kunden Stamm"   name, 2 emails, 2 phones, address
  2  crm.contacts_backup  name, email, phone
  3  crm.newsletter       email
`);
  expect(screen.replaceAll("\r", "")).toContain(`Not mapped; a view can convert or rename columns:
  Handy: bigint, loses leading zeros
  PLZ: integer, loses leading zeros
  extras: jsonb, would be sent as JSON text
  tags: integer[], a list
  Anrede, email_verified, geändert_am, angelegt_am: no matching field
`);
  expect(screen).toContain(
    "`normalize: true` drops 2 of 7 sampled values and avoids sending 1 of 2 addresses",
  );
  expect(await inputsIn(cwd)).toBe(`inputs:
  kunden_stamm:
    table: 'crm."Kunden Stamm"'
    key: [Mandant, KundenNr]
    normalize: true
    fields:
      first_name: Vorname
      last_name: Name
      emails: ["E-Mail", email_privat]
      phones: [Telefon, telefone]
      address_line_1: "Straße"
      city: Ort
      state: Bundesland`);
});

test.concurrent("a mistake is asked again with its reason, and no other answer is lost", async () => {
  const cwd = await makeFolder();
  const url = await makeDatabase(UGLY);
  const run = startOnTerminal(["init"], { cwd, columns: 100, env: { CRM: url, WRONG: "mysql://x" } });
  await reply(run, [
    ["Service", "htps://api.example.com"],
    ["service.base_url: must be", "https://api.example.com"],
    ["Environment variable with the API key", "sk-live-123"],
    ["The file only names the variable", "$CRM_KEY"],
    ["Warehouse", "WRONG"],
    ["WRONG is not a postgresql:// URL", "NOWHERE"],
    ["NOWHERE isn't set here", "CRM"],
    ["Table or view", "crm.contact_backup"],
    ["did you mean crm.contacts_backup?", "2"],
    ["Key column(s), primary key [id]", "ID"],
    ["Did you mean id? Its columns are: id", ""],
    ["Change a field", "email=email"],
    ["email is not a field: did you mean emails?", "city=town"],
    ["inputs.contacts_backup.fields", "phones="],
  ]);
  await run.shows(
    "first_name  first_name\r\n  last_name   last_name\r\n  emails      email\r\nChange a field",
  );
  run.type("\n");
  await reply(run, [["Trim values", "no"]]);
  const { code, screen } = await run.ended;
  expect(code).toBe(0);
  expect(screen).toContain("Set CRM_KEY in the environment");
  const text = await readFile(join(cwd, "config.yaml"), "utf8");
  expect(text).toContain("base_url: https://api.example.com\n  api_key: ${CRM_KEY}");
  expect(text).toContain("url: ${CRM}");
  expect(text).not.toContain("sk-live-123");
  expect(await inputsIn(cwd)).toBe(`inputs:
  contacts_backup:
    table: crm.contacts_backup
    key: id
    fields:
      first_name: first_name
      last_name: last_name
      emails: email`);
});

/** Answers that `init` accepts on a terminal, and what it then writes about the input. */
interface Accepted {
  readonly tables?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly replies: (url: string) => readonly (readonly [question: string, reply: string])[];
  /** Address of the warehouse; by default the reference to a variable that is to be set. */
  readonly url?: string;
  readonly written: string;
}

const accepted: Readonly<Record<string, Accepted>> = {
  "Enter accepts every proposal for a trial with the sandbox": {
    replies: () =>
      ["[sandbox]", "[embedded]", "[crm.customers]", "[id]", "[Enter: done]", "[yes]"].map((of) => [of, ""]),
    url: "embedded",
    written: `table: crm.customers
    key: id
    normalize: true
    fields:
      first_name: first_name
      last_name: last_name
      emails: [email, work_email]`,
  },
  "a key that is not unique is asked again": {
    tables: `CREATE TABLE people (tenant_id int, nr int, email text);
      INSERT INTO people VALUES (1, 1, 'a@b.c'), (1, 2, 'd@e.f'), (2, 1, NULL)`,
    replies: (url) => [
      ["Service", ""],
      ["Warehouse", url],
      ["Table or view", ""],
      ["Key column(s), not known to be unique [nr]", ""],
      ["1 of 3 rows repeat the key of another row", "tenant_id, nr"],
      ["Change a field", ""],
      ["Trim values", "n"],
    ],
    written: "table: public.people\n    key: [tenant_id, nr]\n    fields:",
  },
  "init goes on with typed answers where the database can't be reached": {
    env: { WAREHOUSE_URL: "postgresql://loader@127.0.0.1:1/crm" },
    replies: () => [
      ["Service", "https://api.example.com"],
      ["API key", ""],
      ["Warehouse", ""],
      ["nothing listens on that host and port", ""],
      ["Table or view of people: ", "crm.customers"],
      ["Key column", "tenant, id"],
      ["Change a field", ""],
      ["No column was recognized", "emails=email, work_email"],
      ["Enter: done", ""],
      ["Trim values", "y"],
    ],
    written: "key: [tenant, id]\n    normalize: true",
  },
};

test.concurrent.for(Object.entries(accepted))("%s", async ([, { tables, env = {}, ...given }]) => {
  const cwd = await makeFolder();
  const run = startOnTerminal(["init"], { cwd, columns: 100, env });
  await reply(run, given.replies(tables === undefined ? "" : await makeDatabase(tables)));
  const { code, screen } = await run.ended;
  expect([code, screen.includes("Set ")]).toEqual([0, given.url === undefined]);
  // An address that was typed with its password is used, and only a reference to it is written.
  const { url = "${WAREHOUSE_URL}" } = given;
  expect(await readFile(join(cwd, "config.yaml"), "utf8")).toContain(`\n  url: ${url}`);
  expect(await inputsIn(cwd)).toContain(given.written);
});

test.concurrent("the end of the input ends init without a file", async () => {
  const cwd = await makeFolder();
  const run = startOnTerminal(["init"], { cwd, columns: 100 });
  await reply(run, [["Service", ""]]);
  await run.shows("Warehouse");
  run.type("\u0004");
  const { code, screen } = await run.ended;
  expect(code).toBe(2);
  expect(screen).toContain("nothing was written");
  expect(await readdir(cwd)).toEqual([]);
});

test("without a terminal, init takes key and fields from the table", async () => {
  const cwd = await makeFolder();
  const INIT_TEST_URL = await makeDatabase(`${UGLY}; CREATE TABLE nothing (a int)`);
  const place = { cwd, env: { INIT_TEST_URL } };
  const flags = ["init", "--warehouse-url-env", "INIT_TEST_URL"];
  const missing = await runHereJson([...flags, "--table", "crm.contact_backup"], place);
  expect([missing.code, missing.document.error?.code]).toEqual([2, "usage"]);
  const empty = await runHereJson([...flags, "--table", "nothing", "--key", "a"], place);
  expect(empty.document.error?.message).toContain("No column was recognized");
  const unset = await runHereJson(["init", "--warehouse-url-env", "NOT_SET", "--table", "t"], place);
  expect(unset.document.error?.message).toMatch(/^NOT_SET isn't set here.*\n✗ No column was recognized/u);
  expect(await readdir(cwd)).toEqual([]);
  const { code } = await runHereJson([...flags, "--table", 'crm."Kunden Stamm"'], place);
  expect(code).toBe(0);
  expect(await inputsIn(cwd)).toContain(`key: [Mandant, KundenNr]
    fields:
      first_name: Vorname`);
});

test("without a terminal, init reports what a person would have been asked about", async () => {
  const INIT_TEST_URL =
    await makeDatabase(`CREATE TABLE people (nr int, first_name text, last_name text, email text, zip int, phone jsonb);
    INSERT INTO people VALUES (1, 'Ann', 'Lee', 'a@b.example', 7030), (1, 'Bob', 'Lee', 'c@d.example', 94110), (2, 'Eve', 'Lee', NULL, NULL)`);
  const place = { cwd: await makeFolder(), env: { INIT_TEST_URL } };
  const flags = ["init", "--warehouse-url-env", "INIT_TEST_URL", "--table", "people"];
  const { code, document } = await runHereJson(flags, place);
  expect(code).toBe(0);
  const notes = [
    "1 of 3 rows repeat the key of another row and would be rejected.",
    "Not mapped; a view can convert or rename columns: zip (integer, loses leading zeros); phone (jsonb, would be sent as JSON text).",
  ];
  expect(document["notes"]).toEqual(notes);
  const text = await runHere([...flags, "--config", "other.yaml"], place);
  for (const note of notes) expect(text.stdout).toContain(`\n! ${note}\n`);
  const stated = [...flags, "--key", "nr", "--field", "emails=email", "--config"];
  expect((await runHereJson([...stated, "stated.yaml"], place)).document["notes"]).toEqual([]);
  const env = { INIT_TEST_URL: "postgresql://loader@127.0.0.1:1/crm" };
  const unread = await runHereJson([...flags, "--field", "emails=email", "--config", "unread.yaml"], {
    ...place,
    env,
  });
  expect(unread.document["notes"]).toEqual([
    expect.stringContaining("nothing listens on that host and port"),
  ]);
});

const EXISTING = `# Our nightly load.
service:   { base_url: sandbox }   # for now
warehouse: { url: embedded }
connections: { shop: { type: postgres, url: '\${INIT_TEST_URL}' } }
inputs:
    customers: { table: t, key: id, fields: { emails: email } }
jobs:
    validate_customers: { type: validate_emails, input: customers }   # cheap
`;

test("--add-input adds an input of a connection and its jobs, and leaves every other byte as it is", async () => {
  const cwd = await makeFolder({ "config.yaml": EXISTING });
  const env = { INIT_TEST_URL: await makeDatabase(UGLY) };
  const add = ["init", "--add-input", "contacts", "--table", "crm.contacts_backup", "--connection"];
  const unknown = await runHereJson([...add, "crm"], { cwd, env });
  expect(unknown.document.error?.message).toBe("crm is not a configured connection. Known: warehouse, shop.");
  expect((await runHereJson([...add, "shop"], { cwd, env })).code).toBe(0);
  const text = await readFile(join(cwd, "config.yaml"), "utf8");
  expect(text.split("\n")).toEqual(expect.arrayContaining(EXISTING.split("\n")));
  expect(text).toContain(`
    contacts:
        table: crm.contacts_backup
        connection: shop
`);
  expect(text).toContain("\n    resolve_contacts:   # finds the PID of each row\n        type: resolve\n");
  expect((await stat(join(cwd, "config.yaml"))).mode & 0o777).toBe(0o644);
  const again = await runHereJson([...add, "shop"], { cwd, env });
  expect(again.document.error?.problems).toEqual([
    { path: "inputs.contacts", line: 7, message: "already exists", hint: "choose another name" },
  ]);
  const braces = EXISTING.replace(/inputs:\n +(.*)/u, "inputs: { $1 }");
  const other = await makeFolder({ "config.yaml": braces });
  const refused = await runHereJson([...add, "shop"], { cwd: other, env });
  expect(refused.document.error?.problems?.[0]?.message).toBe("is written in braces");
  expect(await readFile(join(other, "config.yaml"), "utf8")).toBe(braces);
});

test("--add-input with a file proposes its mapping, and adds a connection that reads files", async () => {
  const config = EXISTING.replace(/connections: .*\n/u, "");
  const cwd = await makeFolder({
    "config.yaml": config,
    "New Leads.csv": "Lead ID;Vorname;Nachname;E-Mail;PLZ\n1;Ann;Lee;a@example.com;01234\n1;Bo;Li;;\n",
  });
  const { code, document } = await runHereJson(["init", "--add-input", "New Leads.csv"], cwd);
  expect(code).toBe(0);
  expect(document["notes"]).toEqual(["1 of 2 rows repeat the key of another row and would be rejected."]);
  const text = await readFile(join(cwd, "config.yaml"), "utf8");
  expect(text.split("\n")).toEqual(expect.arrayContaining(config.split("\n")));
  expect(text).toContain("connections:\n  files:   # CSV, Parquet and JSON files\n    type: duckdb\n");
  expect(text).toContain('    new_leads:\n        table: "New Leads.csv"\n        connection: files\n');
  expect(text).toMatch(
    /key: "Lead ID" .*\n.*\n {8}fields: .*\n {12}first_name: Vorname\n {12}last_name: Nachname\n/u,
  );
  const missing = await runHereJson(["init", "--add-input", "gone.csv"], cwd);
  expect(missing.document.error?.message?.split("\n")).toEqual([
    expect.stringContaining("no file matches gone.csv"),
    expect.stringContaining("  → Correct the path"),
    expect.stringContaining("✗ No column was recognized"),
  ]);
});

test("--table with a file says how a file is added, and writes nothing", async () => {
  const cwd = await makeFolder({ "leads.csv": "id,email\n1,a@example.com\n" });
  for (const rest of [[], ["--key", "id", "--field", "emails=email"]]) {
    const { code, document } = await runHereJson(["init", "--table", "leads.csv", ...rest], cwd);
    expect(code).toBe(2);
    expect(document.error?.message).toBe(
      "leads.csv is a file, not a table or view.\n  → name a table, such as crm.customers, then add the file with `person-etl init --add-input leads.csv`",
    );
  }
  expect(await readdir(cwd)).toEqual(["leads.csv"]);
});
