import { copyFile, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeFolder } from "./support/cli.ts";
import { runHere, runHereJson } from "./support/in-process.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { jobTypes } from "../../src/jobs/registry.ts";

const WRONG = `service:
  base_url: https://api.example.com
  api_key: sk-literal-secret-1234
  concurency: 8
warehouse:
  type: postgres
  url: embedded
inputs:
  customers:
    table: crm.customers
    key: id
    fields: { first_name: first_name, emails: email }
jobs:
  enrich_customers: { type: enrich, input: custmers, refresh_after: 90 days }
  found: { type: contact_jobs, job_ids: [seven] }
`;

test.for(["run", "plan", "check", "status", "migrate"])(
  "%s reports every problem of a wrong configuration at once, with path, line and hint, and changes nothing",
  async (command) => {
    const cwd = await makeFolder({ "config.yaml": WRONG });
    const { code, document, stdout, stderr } = await runHereJson([command, "--log-level", "trace"], cwd);
    expect(code).toBe(2);
    const problems = document.error?.problems ?? [];
    expect(problems.map(({ path, line }) => [path, line])).toEqual([
      ["service.api_key", 3],
      ["service.concurency", 4],
      ["jobs.enrich_customers.refresh_after", 14],
      ["jobs.enrich_customers.input", 14],
      ["jobs.found.job_ids[0]", 15],
    ]);
    expect(problems.every(({ message, hint }) => message !== "" && hint !== "")).toBe(true);
    expect(stdout + stderr).not.toContain("sk-literal-secret");
    expect(stdout + stderr).not.toMatch(/^\s+at /m);
    expect(await readdir(cwd)).toEqual(["config.yaml"]);
  },
);

const FLAGS =
  "init --base-url https://api.example.com --warehouse-url-env WAREHOUSE_URL --table crm.Contacts --key tenant_id,id --field first_name=first --field last_name=last --field emails=email,work_email".split(
    " ",
  );

test("init writes a valid configuration, readable by its owner only, and never overwrites one", async () => {
  const cwd = await makeFolder();
  const first = await runHereJson(FLAGS, cwd);
  expect(first.code).toBe(0);
  expect(first.document["file"]).toBe(join(cwd, "config.yaml"));
  const text = await readFile(join(cwd, "config.yaml"), "utf8");
  expect(text).toContain("api_key: ${PERSON_SERVICE_API_KEY}");
  expect(text).toContain("url: ${WAREHOUSE_URL}");
  expect(text).toContain("key: [tenant_id, id]");
  expect(text).toContain("emails: [email, work_email]");
  expect((await stat(join(cwd, "config.yaml"))).mode & 0o777).toBe(0o600);

  const again = await runHereJson([...FLAGS, "--table", "other"], cwd);
  expect([again.code, again.document.error?.code]).toEqual([2, "file_exists"]);
  expect(await readFile(join(cwd, "config.yaml"), "utf8")).toBe(text);
  expect(await readdir(cwd)).toEqual(["config.yaml"]);
});

test("init refuses answers that make no valid configuration, and leaves no file behind", async () => {
  const cwd = await makeFolder();
  const { code, document } = await runHereJson(
    ["init", "--base-url", "ftp://example.com", "--table", "t", "--field", "emial=email"],
    cwd,
  );
  expect(code).toBe(2);
  expect(document.error?.code).toBe("invalid_configuration");
  expect(document.error?.problems?.map(({ path }) => path)).toEqual([
    "service.base_url",
    "inputs.t.fields.emial",
  ]);
  expect(await readdir(cwd)).toEqual([]);
});

test("init without a terminal names the flags that it needs", async () => {
  const { code, document } = await runHereJson(["init"], await makeFolder());
  expect([code, document.error?.code]).toEqual([2, "usage"]);
  expect(document.error?.message).toContain("--table");
});

const SECRETS = {
  PERSON_SERVICE_API_KEY: "sk-key-of-the-service",
  CRM_URL: "postgresql://reader:password-of-crm@127.0.0.1/crm",
  DB_PASSWORD: "password-of-the-warehouse",
  WEBHOOK: "https://hooks.example.com/T0/secret-of-the-hook",
  LAKE_TOKEN: "token-of-the-lake",
  FEED_TOKEN: "token-in-a-path",
  SIGNED: "https://files.example.com/vips.csv?signature=of-the-file",
};

const WITH_SECRETS = `service: { base_url: "\${SERVICE_URL}", api_key: "\${PERSON_SERVICE_API_KEY}" }
warehouse: { url: "postgresql://loader:\${DB_PASSWORD}@127.0.0.1/people" }
connections: { crm: { type: postgres, url: "\${CRM_URL}" }, files: { type: duckdb } }
publish: { lake: { type: iceberg, catalog: https://lake.example.com, warehouse: people, token: "\${LAKE_TOKEN}" } }
alerts: { webhook: "\${WEBHOOK}" }
privacy: { erasure_key: file:erasure-key }
inputs:
  customers: { connection: crm, table: crm.customers, key: id, fields: { emails: email } }
  leads: { connection: files, table: "https://files.example.com/\${FEED_TOKEN}/leads.csv", key: id, fields: { emails: email } }
  vips: { connection: files, table: "\${SIGNED}", key: id, fields: { emails: email } }
  remote: { sql: "select * from dblink('host=crm password=hunter2 user=reader', 'select 1')", where: "source = 'postgres://me:hunter2@db/crm' and api_key = 'hunter2 hunter2'", order_by: "'me:hunter2@db'", key: id, fields: { emails: email } }
  signed: { connection: files, table: "https://files.example.com/a.csv?signature=hunter2", key: id, fields: { emails: email } }
jobs:
  validate: { type: validate_emails, input: customers, refresh_after: 30d }
`;

test("config show prints every setting with defaults, variables as written, and no secret", async () => {
  const cwd = await makeFolder({ "config.yaml": WITH_SECRETS, "erasure-key": "0123456789abcdef-erasure" });
  const env = { ...SECRETS, SERVICE_URL: "https://service.example.com" };
  const shown = await runHere(["config", "show"], { cwd, env });
  expect(shown.code).toBe(0);
  const { document, stdout } = await runHereJson(["config", "show"], { cwd, env });
  const secrets =
    /sk-key|password-of|secret-of|token-of|token-in|of-the-file|service.example|hunter2|0123456789abcdef/u;
  expect(shown.stdout + stdout).not.toMatch(secrets);
  expect(document).toMatchObject({
    file: join(cwd, "config.yaml"),
    settings: {
      service: {
        base_url: "${SERVICE_URL}",
        api_key: "${PERSON_SERVICE_API_KEY}",
        concurrency: 8,
      },
      warehouse: { url: "postgresql://loader:${DB_PASSWORD}@127.0.0.1/people", schema: "person_data" },
      publish: { lake: { token: "${LAKE_TOKEN}", namespace: "person_data" } },
      privacy: { erasure_key: "file:erasure-key", erasure_notice: "30d" },
      inputs: {
        leads: { table: "https://files.example.com/${FEED_TOKEN}/leads.csv" },
        vips: { table: "${SIGNED}" },
        remote: {
          sql: "select * from dblink('host=crm password=*** user=reader', 'select 1')",
          where: "source = 'postgres://***@db/crm' and api_key = ***",
          order_by: "'***@db'",
        },
      },
      jobs: { validate: { refresh_after: "30d", enabled: true, timezone: "UTC" } },
      data_dir: join(cwd, ".person-etl"),
    },
  });
});

test("what config show prints is a file with the same meaning, without warnings", async () => {
  const cwd = await makeFolder();
  await copyFile("config.example.yaml", join(cwd, "config.yaml"));
  const { stdout } = await runHere(["config", "show"], cwd);
  await writeFile(join(cwd, "shown.yaml"), stdout);
  const load = async (name: string) => ({
    ...(await loadConfig({ file: join(cwd, name), jobTypes, env: {} })),
    file: "",
  });
  expect(JSON.stringify(await load("shown.yaml"))).toBe(JSON.stringify(await load("config.yaml")));
});

test("what a command prints of files and tables isn't changed, its hints are", async () => {
  const note = "select 'person-etl run, see docs/operating.md' as id";
  const input = `notes: { sql: "${note}", key: id, fields: { emails: email } }`;
  const text = WITH_SECRETS.replace("inputs:\n", () => `inputs:\n  ${input}\n`);
  const env = { ...SECRETS, SERVICE_URL: "https://service.example.com" };
  const cwd = await makeFolder({ "config.yaml": text, "erasure-key": "0123456789abcdef-erasure" });
  const shown = await runHere(["config", "show"], { cwd, env });
  expect(shown.stdout).toContain(note);
  const help = await runHere(["config", "show", "--help"], { cwd, env });
  expect(help.stdout).toContain(`${process.cwd()}/docs/configuration.md`);
});
