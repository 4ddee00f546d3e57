import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { sampleInputs } from "../../packages/sandbox/src/sample-inputs.ts";
import { createDatabase } from "../support/fresh-database.ts";
import { runSql } from "../support/run-sql.ts";
import { atEnd } from "./support/at-end.ts";
import { type CliOptions, runCli } from "./support/cli.ts";
import { startOnTerminal } from "./support/on-terminal.ts";
import { renderScreen } from "./support/rendered.ts";

/** A customers table as found in the wild: an export with repeated IDs, integer ZIP codes, phones as JSON, placeholders. */
const UGLY = `CREATE SCHEMA crm;
CREATE TABLE crm.customers (customer_no integer, "First Name" text, surname varchar(80), "E-Mail" text, email_work text,
  phones jsonb, mobile text, street text, town text, zip integer, state text, vip boolean, last_modified timestamptz,
  created timestamptz);
CREATE TABLE crm.customers_bak (customer_no integer, email text);
CREATE TABLE crm.orders (order_no bigint PRIMARY KEY, customer_no integer, total numeric)`;

/** View that `check` suggests: one row per customer, phones and ZIP codes as text. */
const CLEAN = `CREATE VIEW crm.customers_clean AS
  SELECT DISTINCT ON (customer_no) customer_no, "First Name", surname, "E-Mail", email_work, mobile,
    phones->>'home' AS phone_home, street, town, lpad(zip::text, 5, '0') AS zip, state, last_modified
  FROM crm.customers WHERE customer_no IS NOT NULL ORDER BY customer_no, last_modified DESC`;

const ROWS = 3000;

async function createUglyCustomers(url: string): Promise<void> {
  const rows = [...sampleInputs({ seed: 1, people: 100_000, rows: ROWS })].map((row, i) => ({
    customer_no: 10_000 + i,
    "First Name": row.first_name,
    surname: row.last_name,
    "E-Mail": i % 23 === 0 ? "n/a" : row.email,
    email_work: row.work_email,
    phones: row.phone === null ? null : { home: row.phone },
    mobile: i % 31 === 0 ? "000" : null,
    street: row.street,
    town: row.city,
    zip: row.zip === null ? null : Number(row.zip),
    state: row.state,
    vip: i % 50 === 0,
    last_modified: row.updated_at,
    created: row.updated_at,
  }));
  const repeated = rows.filter((_, i) => i % 9 === 0);
  await runSql(url, UGLY);
  await runSql(
    url,
    "INSERT INTO crm.customers SELECT * FROM json_populate_recordset(NULL::crm.customers, $1::json)",
    [JSON.stringify([...rows, ...repeated])],
  );
  await runSql(url, "ANALYZE crm.customers");
}

/** A command, with the replies to its questions on a terminal, and its form without one; or a change made elsewhere. */
type Step =
  | {
      readonly terminal: string;
      readonly piped?: string;
      readonly replies?: readonly (readonly [question: string, reply: string])[];
      readonly code: number;
    }
  | { readonly shown: string; readonly change: (place: Place) => Promise<unknown> };

interface Place {
  readonly cwd: string;
  readonly url: string;
}

/** Edits the configuration like the user does. */
const edit =
  (...changes: readonly (readonly [string, string])[]) =>
  async ({ cwd }: Place): Promise<void> => {
    const file = join(cwd, "config.yaml");
    let text = await readFile(file, "utf8");
    for (const [before, after] of changes) {
      expect(text).toContain(before);
      text = text.replace(before, after);
    }
    await writeFile(file, text);
  };

/** Answers on a terminal; Enter accepts the proposal. */
const REPLIES = [
  ["Service", ""],
  ["Warehouse", ""],
  ["Table or view", "1"],
  ["Key column", "customer_no"],
  ["repeat", ""],
  ["Change a field", ""],
  ["Trim values", "n"],
] as const;

const STEPS: readonly Step[] = [
  { terminal: "init", piped: "init --table crm.customers --key customer_no", replies: REPLIES, code: 0 },
  { terminal: "check", code: 2 },
  { shown: `psql "$WAREHOUSE_URL" -f customers-clean.sql`, change: ({ url }) => runSql(url, CLEAN) },
  {
    shown: "vi config.yaml  # table: crm.customers_clean, normalize: true, zipcode: zip, phones: phone_home",
    change: edit(
      ["table: crm.customers", "table: crm.customers_clean\n    normalize: true"],
      ["phones: mobile", "phones: phone_home\n      zipcode: zip"],
    ),
  },
  { terminal: "check", code: 0 },
  { terminal: "migrate", code: 0 },
  { terminal: "plan --show 1 --max-records 2", code: 0 },
  { terminal: "run --max-records 100", piped: "run --max-records 100", code: 0 },
  { terminal: "explain customers/10001", code: 0 },
  { terminal: "run", code: 0 },
  { terminal: "status", piped: "status", code: 0 },
];

const KINDS = [
  { file: "80-columns.txt", columns: 80 },
  { file: "piped.txt", columns: null },
] as const;

describe.each(KINDS)("a first hour on an ugly table, $file", ({ file, columns }) => {
  test("prints what is recorded", { timeout: 300_000 }, async () => {
    const database = await createDatabase();
    atEnd(() => database.release());
    await createUglyCustomers(database.url);
    const cwd = await mkdtemp(join(tmpdir(), "crm-"));
    atEnd(() => rm(cwd, { recursive: true }));
    const env = { WAREHOUSE_URL: database.url, NO_COLOR: "1" };
    const place = { cwd, url: database.url };
    const printed: string[] = [];
    for (const step of STEPS) {
      if ("change" in step) {
        await step.change(place);
        printed.push(`$ ${step.shown}`);
        continue;
      }
      const command = columns === null ? step.piped : step.terminal;
      if (command === undefined) continue;
      const args = command.split(" ");
      const { code, text } =
        columns === null
          ? await runPiped(args, { cwd, env })
          : await runShown(args, { cwd, env, columns, replies: step.replies ?? [] });
      printed.push(`$ person-etl ${command}\n${text}`);
      expect([command, code]).toEqual([command, step.code]);
    }
    const text = `${printed.join("\n\n")}\n`
      .replaceAll(cwd, "~/crm")
      .replaceAll(/127\.0\.0\.1:\d+\/\w+/gu, "127.0.0.1:5432/crm");
    const recorded = new URL(`first-hour/${file}`, import.meta.url);
    if (process.env["PERSON_ETL_RECORD"] === "1") await writeFile(recorded, text);
    expect(comparable(text)).toBe(comparable(await readFile(recorded, "utf8")));
  });
});

/** Runs a command whose output goes to a file; the log stands before the result. */
async function runPiped(
  args: readonly string[],
  options: CliOptions,
): Promise<{ code: number | null; text: string }> {
  const { code, stdout, stderr } = await runCli(args, options);
  return { code, text: `${stderr}${stdout}`.trimEnd() };
}

async function runShown(
  args: readonly string[],
  options: CliOptions & {
    readonly columns: number;
    readonly replies: readonly (readonly [question: string, reply: string])[];
  },
): Promise<{ code: number | null; text: string }> {
  const run = startOnTerminal(args, options);
  for (const [question, reply] of options.replies) {
    await run.shows(question);
    run.type(`${reply}\n`);
  }
  const { code, screen } = await run.ended;
  return { code, text: await renderScreen(screen, options.columns) };
}

/** Words and marks, without what differs between two runs: figures, IDs, moments and progress. */
function comparable(text: string): string {
  return text
    .replaceAll(/^\{.*"event":"progress".*$\n/gmu, "")
    .replaceAll(/^\{"level".*$/gmu, (line) => Object.keys(JSON.parse(line)).join(" "))
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|\d{8}T\d{6}Z-[0-9a-f]{8}/gu, "ID")
    .replaceAll(/^.*[█░].*$\n/gmu, "")
    .replaceAll(/just now|\d+ \w+ ago/gu, "now")
    .replaceAll(/\d[\d.,:]*/gu, "0")
    .replaceAll(/─+/gu, "─")
    .replaceAll(/\s+/gu, " ");
}
