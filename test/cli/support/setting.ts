import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type SampleInput, sampleInputs } from "../../../packages/sandbox/src/sample-inputs.ts";
import { createDatabase } from "../../support/fresh-database.ts";
import { makeFolder, startCli } from "./cli.ts";
import { atEnd } from "./at-end.ts";
import { runSql } from "../../support/run-sql.ts";

/** Population of every test: enough for the rows, quick to start. */
export const PEOPLE = 5000;

/** Variable parts of a test configuration. */
export interface ConfigParts {
  readonly baseUrl?: string;
  /** Sample rows in `crm.customers`; by default there is no such table. */
  readonly rows?: number;
  readonly table?: string;
  /** Additional lines of `service:`, indented. */
  readonly service?: string;
  /** The whole `jobs:` section, and other sections after it. */
  readonly jobs?: string;
  /** Value of `key:` of the customers. */
  readonly key?: string;
  /** Value of `warehouse:`; by default the Postgres in WAREHOUSE_URL. */
  readonly warehouse?: string;
}

const POSTGRES = '{ type: postgres, url: "${WAREHOUSE_URL}" }';

const ALL_JOBS = `jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, valid_emails_from: validate_customers }
`;

/** A configuration. */
export function configText(parts: ConfigParts = {}): string {
  return `service:
  base_url: ${parts.baseUrl ?? "sandbox"}
  api_key: \${PERSON_SERVICE_API_KEY}
${parts.service ?? ""}
sandbox: { people: ${PEOPLE} }
warehouse: ${parts.warehouse ?? POSTGRES}
inputs:
  customers:
    table: ${parts.table ?? "crm.customers"}
    key: ${parts.key ?? "id"}
    fields: { first_name: first_name, last_name: last_name, emails: [email, work_email], phones: [phone], city: city }
${parts.jobs ?? ALL_JOBS}`;
}

/** A key that is easy to find in any output. */
export const API_KEY = "key-4711-do-not-show-me";

/** A new warehouse, and a folder with a configuration for it. */
export interface Setting {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly url: string;
  /** Runs a query in the warehouse. */
  readonly query: (sql: string) => Promise<Record<string, unknown>[]>;
}

/** A setting made here. */
export interface OwnSetting extends Setting {
  /** Writes the configuration again with these parts changed, and more sections at its end. */
  readonly configure: (changes: ConfigParts, more?: string) => Promise<void>;
}

/** Creates a warehouse and a configuration for one test. */
export async function makeSetting(parts: ConfigParts = {}): Promise<OwnSetting> {
  const database = await createDatabase();
  atEnd(() => database.release());
  if (parts.rows !== undefined) await createCustomers(database.url, parts.rows);
  const cwd = await makeFolder({ "config.yaml": configText(parts) });
  return {
    cwd,
    env: { WAREHOUSE_URL: database.url, PERSON_SERVICE_API_KEY: API_KEY },
    url: database.url,
    query: (sql) => runSql(database.url, sql),
    configure: (changes, more = "") =>
      writeFile(join(cwd, "config.yaml"), configText({ ...parts, ...changes }) + more),
  };
}

/** The same with a sandbox, started with these flags like a user's. */
export async function makeServed(
  parts: ConfigParts,
  ...flags: readonly string[]
): Promise<OwnSetting & { readonly baseUrl: string }> {
  const baseUrl = await startSandbox(".", flags);
  return { ...(await makeSetting({ ...parts, baseUrl })), baseUrl };
}

/** Sample rows, as created by the program. */
export function sampleRows(rows: number): readonly SampleInput[] {
  return [...sampleInputs({ seed: 1, people: PEOPLE, rows })];
}

/** Creates `crm.customers` like a user's table. */
export const CREATE_CUSTOMERS = `CREATE SCHEMA crm; CREATE TABLE crm.customers (id bigint PRIMARY KEY, first_name text,
  last_name text, email text, work_email text, phone text, city text, updated_at timestamptz)`;

/** Fills it from a JSON array. */
export const INSERT_CUSTOMERS =
  "INSERT INTO crm.customers SELECT * FROM json_populate_recordset(NULL::crm.customers, $1::json)";

/** Creates and fills `crm.customers` like a user's table. */
export async function createCustomers(url: string, rows: number): Promise<void> {
  await runSql(url, CREATE_CUSTOMERS);
  await runSql(url, INSERT_CUSTOMERS, [JSON.stringify(sampleRows(rows))]);
}

/** Starts the sandbox like a user, until the test ends; returns its address. */
export async function startSandbox(cwd: string, args: readonly string[] = []): Promise<string> {
  const running = startCli(["sandbox", "--json", "--port", "0", "--people", String(PEOPLE), ...args], {
    cwd,
  });
  // Address in the command's document.
  const line = await running.firstLine();
  const { url } = JSON.parse(line) as { url?: string };
  if (url === undefined) throw new Error(`the sandbox didn't start: ${line}`);
  atEnd(async () => {
    running.child.kill("SIGTERM");
    await running.result;
  });
  return url;
}
