import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type CliResult, runCli, runJson } from "./support/cli.ts";
import {
  API_KEY,
  configText,
  createCustomers,
  makeSetting,
  sampleRows,
  type Setting,
  startSandbox,
} from "./support/setting.ts";
import { unusedPort } from "../support/unused-port.ts";

/** Only one job, so that the answer is in one place. */
const RESOLVE = "jobs:\n  resolve_customers: { type: resolve, input: customers }\n";
const RESOLVE_AND_ENRICH = `${RESOLVE}  enrich_customers: { type: enrich, input: customers }\n`;

/** Schemas that a run would create. */
async function ourSchemas({ query }: Setting): Promise<unknown[]> {
  return await query("SELECT nspname FROM pg_namespace WHERE nspname ~ '^person_data'");
}

/** A setting whose service is a sandbox at an address, like a real one. */
async function withService(
  sandboxArgs: readonly string[],
  parts: { readonly jobs?: string; readonly service?: string } = {},
): Promise<Setting> {
  const setting = await makeSetting();
  await createCustomers(setting.url, 50);
  const baseUrl = await startSandbox(setting.cwd, sandboxArgs);
  await writeFile(join(setting.cwd, "config.yaml"), configText({ ...parts, baseUrl }));
  return setting;
}

test.concurrent("an unreachable service fails the run, and check reports the address", async () => {
  const port = await unusedPort();
  const setting = await makeSetting({ baseUrl: `http://127.0.0.1:${port}`, jobs: RESOLVE });
  await createCustomers(setting.url, 20);
  const checked = await runJson(["check"], setting);
  expect(checked.code).toBe(1);
  expect(checked.document["checks"]).toContainEqual({
    subject: "service",
    status: "unreachable",
    message: `http://127.0.0.1:${port} is unreachable (ECONNREFUSED)`,
    hint: "nothing listens there: check host and port of service.base_url, and HTTPS_PROXY if it is set",
  });
  const run = await runJson(["run"], setting);
  expect([run.code, run.document.status]).toEqual([1, "failed"]);
  expect(run.document["jobs"]).toMatchObject([
    { status: "failed", records_sent: 0, error: { message: expect.stringContaining("service.base_url") } },
  ]);
});

test.concurrent("a missing input table, and then each missing column, is reported before anything is created", async () => {
  const setting = await makeSetting({ baseUrl: "http://127.0.0.1:1" });
  const noTable = await runJson(["run"], setting);
  expect([noTable.code, noTable.document.error?.problems?.length]).toEqual([2, 1]);
  expect(noTable.document.error?.problems?.[0]).toMatchObject({
    path: "inputs.customers.table",
    message: expect.stringContaining("crm.customers"),
    hint: expect.stringContaining("Create the table"),
  });

  await setting.query(
    "CREATE SCHEMA crm; CREATE TABLE crm.customers (id int, first_name text, last_name text, email text)",
  );
  const noColumns = await runJson(["run"], setting);
  expect(noColumns.code).toBe(2);
  expect(noColumns.document.error?.problems?.map(({ path }) => path)).toEqual([
    "inputs.customers.fields.city",
    "inputs.customers.fields.emails",
    "inputs.customers.fields.phones",
  ]);
  expect(await ourSchemas(setting)).toEqual([]);
});

test.concurrent("an unreachable database, a wrong password and a missing database each get their own message", async () => {
  const setting = await makeSetting();
  const answer = async (change: (url: URL) => void) => {
    const url = new URL(setting.url);
    change(url);
    const { code, document, stdout, stderr } = await runJson(["run"], {
      ...setting,
      env: { ...setting.env, WAREHOUSE_URL: url.href },
    });
    expect(stdout + stderr).not.toContain("wrong-password");
    return [code, document.error?.code, document.error?.message];
  };
  const port = await unusedPort();
  expect(await answer((url) => (url.port = String(port)))).toEqual([
    1,
    "database_unreachable",
    expect.stringContaining("nothing listens on that host and port"),
  ]);
  expect(await answer((url) => (url.password = "wrong-password"))).toEqual([
    2,
    "database_refused",
    expect.stringContaining("the password was rejected"),
  ]);
  expect(await answer((url) => (url.pathname = "/not_there"))).toEqual([
    2,
    "database_refused",
    expect.stringContaining("that database does not exist"),
  ]);
});

test.concurrent("a rejected key (401) stops the run, and every later job reports why it did not start", async () => {
  const setting = await withService(["--api-key", "another-key"], { jobs: RESOLVE_AND_ENRICH });
  const checked = await runCli(["check"], setting);
  expect(checked.code).toBe(2);
  expect(checked.stdout).toMatch(
    /✗ API key +http:\/\/127.0.0.1:\d+ rejects the key \(401\)\n +→ check the key that service.api_key refers to/,
  );
  const { code, document, stdout, stderr } = await runJson(["run"], setting);
  expect([code, document.status]).toEqual([1, "failed"]);
  expect(document["jobs"]).toMatchObject([
    {
      job: "resolve_customers",
      status: "failed",
      records_matched: 0,
      error: { message: expect.stringContaining("401") },
    },
    { job: "enrich_customers", status: "skipped" },
  ]);
  expect(stdout + stderr).not.toContain(API_KEY);
});

test.concurrent("a route that the key may not call (403) fails its job alone", async () => {
  const setting = await withService(["--faults", "forbidden@enrich"], { jobs: RESOLVE_AND_ENRICH });
  const checked = await runJson(["check"], setting);
  expect(checked.code).toBe(2);
  expect(checked.document["checks"]).toEqual(
    expect.arrayContaining([
      { subject: "POST /v1/resolve", status: "ok", message: "the key has access" },
      expect.objectContaining({
        subject: "POST /v2/enrich",
        status: "wrong",
        message: "the key has no access (403)",
      }),
    ]),
  );
  const { code, document } = await runJson(["run"], setting);
  expect(code).toBe(1);
  expect(document["jobs"]).toMatchObject([
    { job: "resolve_customers", status: "succeeded" },
    { job: "enrich_customers", status: "failed", error: { message: expect.stringContaining("403") } },
  ]);
});

test.concurrent("check bills nothing and sends no record", async () => {
  const setting = await withService([]);
  expect((await runJson(["check"], setting)).code).toBe(0);
  const config = await readFile(join(setting.cwd, "config.yaml"), "utf8");
  const [, baseUrl] = /base_url: (.*)/.exec(config) ?? [];
  const ledger = await (await fetch(`${baseUrl}/_sandbox/ledger`)).json();
  expect(JSON.stringify(ledger)).not.toMatch(/"(records|billed|matched)":[1-9]/);
});

test.concurrent("a service other than the one that filled the warehouse is refused before any call", async () => {
  const setting = await makeSetting({ rows: 30, jobs: RESOLVE });
  expect((await runJson(["run"], setting)).code).toBe(0);
  const port = await unusedPort();
  await writeFile(
    join(setting.cwd, "config.yaml"),
    configText({ baseUrl: `http://127.0.0.1:${port}`, jobs: RESOLVE }),
  );
  const refused = await runJson(["run"], setting);
  expect([refused.code, refused.document.error?.code]).toEqual([2, "another_service"]);
  expect(refused.document.error?.problems?.[0]?.hint).toContain(`migrate --accept-service 127.0.0.1:${port}`);

  const mistyped = await runJson(["migrate", "--accept-service", "127.0.0.1:2"], setting);
  expect([mistyped.code, mistyped.document.error?.code]).toEqual([2, "another_service"]);
  const accepted = await runJson(["migrate", "--accept-service", `127.0.0.1:${port}`], setting);
  expect([accepted.code, accepted.document["service_host"]]).toEqual([0, `127.0.0.1:${port}`]);
});

/** Input rows whose values a test searches for. */
const ROWS = 300;

/** Identifying texts of the input. */
function personalTexts(): readonly string[] {
  return sampleRows(ROWS)
    .flatMap((row) => [row.email, row.work_email, row.phone])
    .flatMap((text) => (text === null || text.trim() === "" ? [] : [text.trim()]));
}

/** Texts found in any output. */
function leaksIn(results: readonly CliResult[], { url }: Setting): readonly string[] {
  const printed = results.map(({ stdout, stderr }) => stdout + stderr).join("\n");
  const password = decodeURIComponent(new URL(url).password);
  return [API_KEY, password, ...personalTexts()].filter((text) => text !== "" && printed.includes(text));
}

test.concurrent("output at level trace contains no key, password, address or phone number", async () => {
  const setting = await makeSetting();
  await createCustomers(setting.url, ROWS);
  const faults = "500#1,truncated_json#2,429=0#3,string_too_long#4-6,wrong_types:0.3,nul_text:0.2";
  const baseUrl = await startSandbox(setting.cwd, ["--faults", faults]);
  await writeFile(join(setting.cwd, "config.yaml"), configText({ baseUrl, service: "  concurrency: 2" }));
  const results: CliResult[] = [];
  for (const command of ["check", "plan", "run", "status"])
    results.push(await runCli(["--log-level", "trace", command], setting));
  expect(results[2]?.stderr.split("\n").length).toBeGreaterThan(10);
  expect(leaksIn(results, setting)).toEqual([]);
});

test.concurrent.each([
  { how: "an INSERT", job: "validate_customers", table: "email_validation" },
  { how: "a COPY", job: "enrich_customers", table: "person" },
])("of a trigger that raises in $how the log has the table, and nothing prints the row", async (failing) => {
  const setting = await makeSetting({ rows: ROWS });
  expect((await runJson(["migrate"], setting)).code).toBe(0);
  await setting.query(
    `CREATE FUNCTION quote_row() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'this row is bad: %', NEW; END $$;
     CREATE TRIGGER quote_row BEFORE INSERT ON person_data.${failing.table} FOR EACH ROW EXECUTE FUNCTION quote_row()`,
  );
  const result = await runJson(["--log-level", "debug", "run"], setting);
  expect([result.code, result.document.status]).toEqual([1, "failed"]);
  expect(result.document["jobs"]).toContainEqual(
    expect.objectContaining({ job: failing.job, status: "failed" }),
  );
  const ended = result.stderr.split("\n").find((line) => line.includes('"job_failed"')) ?? "{}";
  const { message, code } = JSON.parse(ended);
  expect(code).toBe("warehouse_refused");
  expect(message).toContain(`person_data.${failing.table}`);
  expect(leaksIn([result], setting)).toEqual([]);
});

test.concurrent("an unhandled rejection is reported without a stack trace, and resources are closed", async () => {
  const setting = await makeSetting({ rows: 60 });
  // Thrown outside our code, like a bug in a library, while the command is working.
  const stray = `const timer = setInterval(() => {
      if (process.listenerCount("uncaughtException") === 0) return;
      clearInterval(timer);
      setTimeout(() => { throw new Error("someone@example.com is no number") }, 1000);
    }, 50)`;
  await writeFile(join(setting.cwd, "stray.mjs"), stray);
  const env = { ...setting.env, NODE_OPTIONS: `--import=${join(setting.cwd, "stray.mjs")}` };
  const baseUrl = await startSandbox(setting.cwd, ["--latency", "5000"]);
  await createCustomers(setting.url, 10);
  await writeFile(join(setting.cwd, "config.yaml"), configText({ baseUrl, jobs: RESOLVE }));
  const { code, document, stdout, stderr } = await runJson(["run"], { ...setting, env });
  expect([code, document.error?.code]).toEqual([1, "internal"]);
  expect(document.error?.message).toContain("--log-level debug");
  expect(stdout + stderr).not.toContain("is no number");
  expect(stdout + stderr).not.toContain("    at ");
});
