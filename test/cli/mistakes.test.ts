import { createServer } from "node:http";
import { writeFile } from "node:fs/promises";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { startSecureServer } from "../extract/company-network.ts";
import { makeAuthority } from "../extract/self-signed.ts";
import { failureOf } from "../../src/cli/failure.ts";
import { makeFolder } from "./support/cli.ts";
import { runHere } from "./support/in-process.ts";

const FILE = `service:
  base_url: https://api.example.com
  api_key: \${API_KEY}
warehouse:
  url: \${WAREHOUSE_URL}
inputs:
  customers:
    table: crm.customers
    key: id
    fields:
      first_name: first_name
      last_name: last_name
      emails: [email, work_email]
jobs:
  resolve_customers:
    type: resolve
    input: customers
    schedule: "15 1 * * *"
  validate_customers:
    type: validate_emails
    input: customers
  enrich_customers:
    type: enrich
    input: customers
    pid_from: resolve_customers
    refresh_after: 90d
`;

const ENVIRONMENT = { API_KEY: "sk", WAREHOUSE_URL: "postgresql://u:p@localhost/db" };

/** A mistake: text to replace in the file, or variables; and the first problem that `check` prints. */
interface Mistake {
  readonly mistake: string;
  readonly replace?: readonly [string, string];
  readonly env?: Readonly<Record<string, string>>;
  readonly printed: readonly string[];
}

const MISTAKES: readonly Mistake[] = [
  {
    mistake: "a key in clear text",
    replace: ["${API_KEY}", "sk-live-0123456789"],
    printed: [
      "service.api_key (line 3): must be a reference to a secret, not the secret itself",
      "  → use ${NAME} for an environment variable, or file:PATH (relative to this file); revoke a key that was in this file",
    ],
  },
  {
    mistake: "a field in the singular",
    replace: ["emails: [email, work_email]", "email: email"],
    printed: [
      "inputs.customers.fields.email (line 13): is not a setting of inputs.customers.fields",
      "  → did you mean emails?",
    ],
  },
  {
    mistake: "a type that doesn't exist",
    replace: ["type: enrich", "type: enrichment"],
    printed: [
      'jobs.enrich_customers.type (line 23): must be one of resolve, validate_emails, enrich, segment_members, segment_push, death_signals, search_usage, endpoint_usage, person_search, audience_search, contact_jobs (found "enrichment")',
      "  → did you mean enrich?",
    ],
  },
  {
    mistake: "two jobs of one name",
    replace: ["  validate_customers:", "  resolve_customers:"],
    printed: [
      "resolve_customers (line 19): is defined twice (also on line 15)",
      "  → remove or rename one of them",
    ],
  },
  {
    mistake: "a variable without braces",
    replace: ["${WAREHOUSE_URL}", "$WAREHOUSE_URL"],
    printed: [
      "warehouse.url (line 5): must be `embedded`, or the postgres:// address of a database, preferably as a reference",
      "  → embedded, ${NAME} or file:PATH",
    ],
  },
  {
    mistake: "the embedded warehouse, misspelled",
    replace: ["${WAREHOUSE_URL}", "embeded"],
    printed: [
      "warehouse.url (line 5): must be `embedded`, or the postgres:// address of a database, preferably as a reference",
      "  → did you mean embedded?",
    ],
  },
  {
    mistake: "a misspelled variable",
    replace: ["${WAREHOUSE_URL}", "${WAREHOSE_URL}"],
    printed: [
      "warehouse.url (line 5): requires the environment variable WAREHOSE_URL, which is not set",
      "  → did you mean WAREHOUSE_URL? Otherwise, set it in the environment of this command",
    ],
  },
  {
    mistake: "an unquoted schedule that starts with *",
    replace: ['"15 1 * * *"', "*/15 * * * *"],
    printed: [
      "config.yaml (line 18): has unquoted text that starts with *, which YAML reserves",
      '  → quote it: "*/15 * * * *"',
    ],
  },
  {
    mistake: "an hour that no day has",
    replace: ['"15 1 * * *"', '"15 24 * * *"'],
    printed: [
      'jobs.resolve_customers.schedule (line 18): has an invalid hour (found "15 24 * * *")',
      '  → minute, hour, day of month, month, day of week: "15 1 * * *" is every day at 01:15',
    ],
  },
  {
    mistake: "a job that is not indented",
    replace: [
      "  validate_customers:\n    type: validate_emails\n    input: customers\n",
      "validate_customers:\n  type: validate_emails\n  input: customers\n",
    ],
    printed: [
      "validate_customers (line 19): is not a setting",
      "  → the settings here are log_level, service, sandbox, warehouse, publish, data_dir, confirm_above, max_reject_ratio, connections, inputs, privacy, retention, history, extra_columns, alerts, http, budgets, prices, jobs; indent what belongs to one of them",
    ],
  },
  {
    mistake: "settings indented like their job",
    replace: [
      "  validate_customers:\n    type: validate_emails\n    input: customers\n",
      "  validate_customers:\n  type: validate_emails\n  input: customers\n",
    ],
    printed: [
      "jobs.validate_customers (line 19): is empty",
      "  → give it a value, indent its settings below it, or remove the line",
    ],
  },
  {
    mistake: "jobs written as a list",
    replace: [
      '  resolve_customers:\n    type: resolve\n    input: customers\n    schedule: "15 1 * * *"\n  validate_customers:\n    type: validate_emails\n    input: customers\n  enrich_customers:\n    type: enrich\n    input: customers\n    pid_from: resolve_customers\n    refresh_after: 90d\n',
      "  - name: resolve_customers\n    type: resolve\n    input: customers\n",
    ],
    printed: [
      "jobs (line 14): must be a mapping of keys to values",
      "  → indent its keys below it, without `- `",
    ],
  },
  {
    mistake: "an input without a name",
    replace: ["inputs:\n  customers:\n", "inputs:\n"],
    printed: [
      'inputs.table (line 7): must be a mapping of keys to values (found "crm.customers")',
      "  → indent its keys below it, without `- `",
    ],
  },
  {
    mistake: "a misspelled time zone",
    replace: ['"15 1 * * *"', '"15 1 * * *"\n    timezone: America/Chigaco'],
    printed: [
      'jobs.resolve_customers.timezone (line 19): is not a time zone (found "America/Chigaco")',
      "  → did you mean America/Chicago?",
    ],
  },
  {
    mistake: "a field mapped twice",
    replace: ["last_name: last_name", "first_name: name"],
    printed: ["first_name (line 12): is defined twice (also on line 11)", "  → remove or rename one of them"],
  },
  {
    mistake: "a budget with a unit",
    replace: ["jobs:", "budgets: { enrich: { per_day: 20k records } }\njobs:"],
    printed: [
      'budgets.enrich.per_day (line 14): must be a whole number of records, 0 or more, or { amount: 500 } (found "20k records")',
      "  → write 100000 for records, or { amount: 500 } in the currency of `prices`",
    ],
  },
  {
    mistake: "a budget in money without braces",
    replace: ["jobs:", "budgets: { enrich: { per_month: $500 } }\njobs:"],
    printed: [
      'budgets.enrich.per_month (line 14): must be a whole number of records, 0 or more, or { amount: 500 } (found "$500")',
      "  → write 100000 for records, or { amount: 500 } in the currency of `prices`",
    ],
  },
  {
    mistake: "a budget without a period",
    replace: ["jobs:", "budgets: { enrich: 100k }\njobs:"],
    printed: [
      'budgets.enrich (line 14): must be the records per UTC day or month (found "100k")',
      "  → write { per_day: 100000 } or { per_month: { amount: 500 } }",
    ],
  },
  {
    mistake: "a budget for a job",
    replace: ["jobs:", "budgets: { enrich_customers: { per_day: 20000 } }\njobs:"],
    printed: ["budgets.enrich_customers (line 14): is not a setting of budgets", "  → did you mean enrich?"],
  },
  {
    mistake: "an empty variable",
    env: { API_KEY: "" },
    printed: [
      "service.api_key (line 3): requires the environment variable API_KEY, which is empty",
      "  → set it in the environment of this command",
    ],
  },
  {
    mistake: "people and operations in one schema",
    replace: ["${WAREHOUSE_URL}", "${WAREHOUSE_URL}\n  schema: people\n  ops_schema: people"],
    printed: [
      'warehouse.ops_schema (line 7): must differ from warehouse.schema (found "people")',
      "  → use different names, such as person_data, person_data_ops and person_data_state: each has different readers",
    ],
  },
  {
    mistake: "a key file that is a folder",
    replace: ["${API_KEY}", "file:/etc"],
    printed: [
      "service.api_key (line 3): refers to a file that is a folder",
      "  → relative paths start at FOLDER",
    ],
  },
  {
    mistake: "a key file without file:",
    replace: ["${API_KEY}", "/run/secrets/person-service-key"],
    printed: [
      "service.api_key (line 3): must be a reference to a secret",
      "  → write file: before the path of a file",
    ],
  },
  {
    mistake: "a list that isn't closed",
    replace: ["[email, work_email]", "[email, work_email"],
    printed: ["config.yaml (line 13): has a [ that is not closed", "  → close it with ] on the same line"],
  },
  {
    mistake: "a word in place of a number",
    replace: ["service:", "service:\n  concurrency: eight"],
    printed: [
      'service.concurrency (line 2): must be a whole number from 1 to 64 (found "eight")',
      "  → docs/configuration.md describes this setting",
    ],
  },
  {
    mistake: "a schedule by name",
    replace: ['"15 1 * * *"', '"@daily"'],
    printed: [
      'jobs.resolve_customers.schedule (line 18): must be a cron schedule of five fields (found "@daily")',
      '  → write "0 0 * * *"',
    ],
  },
  {
    mistake: "a schedule on a day that no month has",
    replace: ['"15 1 * * *"', '"0 0 30 2 *"'],
    printed: [
      'jobs.resolve_customers.schedule (line 18): never occurs: none of its months has that day (found "0 0 30 2 *")',
      "  → correct the day or the month",
    ],
  },
  {
    mistake: "a day that the calendar doesn't have",
    replace: ["jobs:\n", "jobs:\n  usage: { type: endpoint_usage, start_date: 2026-02-30 }\n"],
    printed: [
      'jobs.usage.start_date (line 15): is a day that doesn\'t exist (found "2026-02-30")',
      "  → write a day of the calendar as YYYY-MM-DD",
    ],
  },
  {
    mistake: "a day in another order",
    replace: ["jobs:\n", "jobs:\n  usage: { type: endpoint_usage, start_date: 01.02.2026 }\n"],
    printed: [
      'jobs.usage.start_date (line 15): must be a day such as 2026-01-31 (found "01.02.2026")',
      "  → write year, month and day as YYYY-MM-DD",
    ],
  },
  {
    mistake: "a job that doesn't exist in `after`",
    replace: ["pid_from: resolve_customers", "after: [resolve_customer]"],
    printed: [
      'jobs.enrich_customers.after[0] (line 25): is not a configured job (found "resolve_customer")',
      "  → did you mean resolve_customers?",
    ],
  },
  {
    mistake: "a key in place of the address of the service",
    replace: ["https://api.example.com", "sk_live_hunter2"],
    printed: [
      "service.base_url (line 2): must be `sandbox` or the https:// address of the service",
      "  → write https:// before it",
    ],
  },
  {
    mistake: "an address of the service with the path of an endpoint",
    replace: ["api.example.com", "api.example.com/v2/enrich"],
    printed: ["service.base_url (line 2): contains the path of an endpoint", "  → end it before /v2/"],
  },
];

afterEach(() => vi.unstubAllEnvs());

test.for(MISTAKES)("$mistake", async ({ replace: [before, after] = ["", ""], env, printed }) => {
  expect(FILE).toContain(before);
  const cwd = await makeFolder({ "config.yaml": FILE.replace(before, () => after) });
  for (const [name, value] of Object.entries({ ...ENVIRONMENT, ...env })) vi.stubEnv(name, value);
  const { code, stdout } = await runHere(["check"], cwd);
  expect(code).toBe(2);
  const [title, ...lines] = stdout
    .replaceAll(cwd, "FOLDER")
    .replaceAll(`${process.cwd()}/`, "")
    .trimEnd()
    .split("\n");
  expect(title).toMatch(/^✗ \d+ problems? in FOLDER\/config\.yaml$/u);
  expect(lines.slice(0, 2)).toEqual(printed.map((line) => `  ${line}`));
});

/** Configuration that needs no server. */
const LOCAL = FILE.replace("https://api.example.com", "sandbox").replace("${WAREHOUSE_URL}", "embedded");

test.for([
  ["run", "enrich"],
  ["plan", "enrich"],
  ["checkpoint", "show", "enrich"],
])("a part of a job's name: %s", async (args) => {
  const cwd = await makeFolder({ "config.yaml": LOCAL });
  const { code, stdout } = await runHere(args, cwd);
  expect(code).toBe(2);
  expect(stdout.split("\n").slice(1, 3)).toEqual([
    "  jobs.enrich: does not exist",
    "    → did you mean enrich_customers?",
  ]);
});

test("https:// on a port of http", async () => {
  const server = createServer((_request, response) => response.end()).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo; // of a server on a port
  const cwd = await makeFolder();
  await writeFile(join(cwd, "config.yaml"), LOCAL.replace("sandbox", `https://127.0.0.1:${port}`));
  vi.stubEnv("API_KEY", "sk");
  const { code, stdout } = await runHere(["check"], cwd);
  expect(code).toBe(1);
  expect(stdout).toContain(`https://127.0.0.1:${port} is unreachable (ERR_SSL_WRONG_VERSION_NUMBER)\n`);
  expect(stdout).toContain(
    "→ it is not an HTTPS server: check the port of service.base_url, or write http:// for a service on this machine\n",
  );
});

test("a certificate of an authority that Node.js doesn't know, until service.ca names its file", async () => {
  const authority = makeAuthority("Company CA");
  const { port } = await startSecureServer(authority.certify("localhost"));
  const config = LOCAL.replace("sandbox", `https://localhost:${port}`);
  const cwd = await makeFolder({ "config.yaml": config, "ca.pem": authority.cert });
  vi.stubEnv("API_KEY", "sk");
  expect((await runHere(["check"], cwd)).stdout.replaceAll(/\s+/gu, " ")).toContain(
    `https://localhost:${port} is unreachable (UNABLE_TO_VERIFY_LEAF_SIGNATURE) → its certificate is signed by an unknown ` +
      "authority: set service.ca or NODE_EXTRA_CA_CERTS to the authority's PEM file",
  );
  await writeFile(join(cwd, "config.yaml"), config.replace("api_key:", "ca: ca.pem\n  api_key:"));
  expect((await runHere(["check"], cwd)).stdout).toContain(
    `https://localhost:${port} is reachable and accepts the key`,
  );
});

test("no command starts while a variable turns off the verification of certificates", async () => {
  const env = { NODE_TLS_REJECT_UNAUTHORIZED: "0" };
  const { code, stdout } = await runHere(["--json", "check"], { cwd: await makeFolder({}), env });
  expect([code, JSON.parse(stdout).error]).toEqual([
    2,
    { code: "verification_off", message: expect.stringContaining("set NODE_EXTRA_CA_CERTS to its PEM file") },
  ]);
});

test("a limit of open files that is too low", () => {
  const error = Object.assign(new Error("EMFILE: too many open files, open 'x'"), {
    code: "EMFILE",
    syscall: "open",
    errno: -24,
  });
  expect(failureOf(error)).toMatchObject({
    code: "EMFILE",
    message: expect.stringContaining("(`ulimit -n 64`"),
  });
});
