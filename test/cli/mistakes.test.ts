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

/** A mistake: text to replace in the file, and the first problem that `check` prints. The tests of the configuration have others. */
interface Mistake {
  readonly mistake: string;
  readonly replace: readonly [string, string];
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
    mistake: "a budget without a period",
    replace: ["jobs:", "budgets: { enrich: 100k }\njobs:"],
    printed: [
      'budgets.enrich (line 14): must be the records per UTC day or month (found "100k")',
      "  → write { per_day: 100000 } or { per_month: { amount: 500 } }",
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
    mistake: "a schedule on a day that no month has",
    replace: ['"15 1 * * *"', '"0 0 30 2 *"'],
    printed: [
      'jobs.resolve_customers.schedule (line 18): never occurs: none of its months has that day (found "0 0 30 2 *")',
      "  → correct the day or the month",
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
    mistake: "an address of the service with the path of an endpoint",
    replace: ["api.example.com", "api.example.com/v2/enrich"],
    printed: ["service.base_url (line 2): contains the path of an endpoint", "  → end it before /v2/"],
  },
];

afterEach(() => vi.unstubAllEnvs());

test.for(MISTAKES)("$mistake", async ({ replace: [before, after], printed }) => {
  expect(FILE).toContain(before);
  const cwd = await makeFolder({ "config.yaml": FILE.replace(before, () => after) });
  for (const [name, value] of Object.entries(ENVIRONMENT)) vi.stubEnv(name, value);
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
