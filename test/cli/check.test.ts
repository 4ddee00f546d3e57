import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { unusedPort } from "../support/unused-port.ts";
import { runHere, runHereJson } from "./support/in-process.ts";
import { configText, makeSetting, startSandbox } from "./support/setting.ts";

const JOBS = `jobs:
  enrich: { type: enrich, input: customers }
  push: { type: segment_push, name: All, sql: "select '' as service_pid" }
  members: { type: segment_members, segments: [{ job: push }] }
  deaths: { type: death_signals, segments: [{ job: push }] }
  searches: { type: search_usage }
`;

/** Findings in the document of `check`, as `subject: status, message`. */
function findingsOf(document: object): readonly string[] {
  // By the contract.
  const { checks } = document as { checks: { subject: string; status: string; message: string }[] };
  return checks.map(({ subject, status, message }) => `${subject}: ${status}, ${message}`);
}

test("check reports for every endpoint whether the key may call it; it sends no record and changes nothing", async () => {
  const setting = await makeSetting();
  const sandbox = await startSandbox(setting.cwd, ["--faults", "forbidden@deaths"]);
  await writeFile(join(setting.cwd, "config.yaml"), configText({ baseUrl: sandbox, jobs: JOBS }));
  const { code, document } = await runHereJson(["check"], setting);
  expect(code).toBe(2);
  expect(findingsOf(document).filter((line) => /^(GET|POST) /u.test(line))).toEqual([
    "POST /v2/enrich: ok, the key has access",
    "POST /v2/segments/create: ok, the key has access",
    "GET /v2/segments/members: ok, the key has access",
    "POST /v2/segments/members/add: ok, the key has access",
    "POST /v2/segments/members/remove: ok, the key has access",
    "GET /v2/segments/signals/deaths: wrong, the key has no access (403)",
    "GET /person-search/v0/usage: ok, the key has access",
  ]);
  const state = async (path: string) => await (await fetch(`${sandbox}/_sandbox/${path}`)).json();
  expect(await state("segments")).toEqual({ segments: [] });
  expect(JSON.stringify(await state("ledger"))).not.toMatch(/"(records|billed|matched)":[1-9]/);
});

test("check reports a service that is unreachable, or rejects the key", async () => {
  const nowhere = `http://127.0.0.1:${await unusedPort()}`;
  const setting = await makeSetting({ baseUrl: nowhere });
  const check = async () => {
    const { code, document } = await runHereJson(["check"], setting);
    return [code, findingsOf(document).at(-1)];
  };
  await setting.query(
    "CREATE SCHEMA crm; CREATE TABLE crm.customers AS SELECT 1 AS id, '' AS first_name, '' AS last_name, '' AS email, '' AS work_email, '' AS phone, '' AS city",
  );
  expect(await check()).toEqual([1, `service: unreachable, ${nowhere} is unreachable (ECONNREFUSED)`]);
  const baseUrl = await startSandbox(setting.cwd, ["--api-key", "another-key"]);
  await writeFile(join(setting.cwd, "config.yaml"), configText({ baseUrl }));
  expect(await check()).toEqual([2, `API key: wrong, ${baseUrl} rejects the key (401)`]);
});

test("check reports pushes whose query returns no PID or whose connection is down", async () => {
  const setting = await makeSetting({
    jobs: `connections:
  down: { type: postgres, url: "\${DOWN_URL}" }
jobs:
  good: { type: segment_push, name: Good, sql: "select '' as service_pid" }
  early: { type: segment_push, name: Early, sql: "select service_pid from person_data.identity_link" }
  bad: { type: segment_push, name: Bad, sql: "select '' as pid" }
  far: { type: segment_push, name: Far, sql: "select '' as service_pid", connection: down }
`,
  });
  const env = { ...setting.env, DOWN_URL: `postgresql://u:p@127.0.0.1:${await unusedPort()}/db` };
  const { code, document } = await runHereJson(["check"], { ...setting, env });
  expect(code).toBe(2);
  expect(findingsOf(document).filter((line) => line.startsWith("query of"))).toEqual([
    "query of good: ok, can be read and returns service_pid",
    expect.stringMatching(/^query of early: ok, .*the first run creates/u),
    "query of bad: wrong, jobs.bad.sql (line 17): the query of `sql:` has no column service_pid.",
    expect.stringMatching(/^query of far: (?:wrong|unreachable), .*down/u),
  ]);
});

test("check warns before a push with a changed name creates another segment", async () => {
  const push = `jobs:\n  push: { type: segment_push, name: Opted out, sql: "select '' as service_pid" }\n`;
  const setting = await makeSetting({ jobs: push });
  await runHere(["migrate"], setting);
  await setting.query(`INSERT INTO person_data_ops.checkpoint (job, stream, cursor, updated_at, run_id, _synced_at)
    VALUES ('push', 'segment', '{"segment_id": "s-1", "name": "VIP"}', now(), 'r-1', now())`);
  const { document } = await runHereJson(["check"], setting);
  expect(findingsOf(document)).toContain(
    'jobs.push: warning, another segment is created under the name "Opted out"; s-1 ("VIP"), which it filled so far, stays as it is',
  );
});

/** Customers as people enter them; every value of a cell is easy to find in an output. */
const UGLY = `CREATE SCHEMA crm; CREATE TABLE crm.customers (tenant int, nr text, first_name text, last_name text, email text,
    phones jsonb, zip integer, state text, middle text, updated_at timestamptz, PRIMARY KEY (tenant, nr));
  INSERT INTO crm.customers SELECT i % 3, 'K-' || i,
    CASE WHEN i % 10 = 0 THEN ' Zacharias' || i ELSE 'Zacharias' || i END, CASE WHEN i % 20 = 0 THEN 'n/a' ELSE 'Quimby' || i END,
    CASE i % 10 WHEN 0 THEN 'quimby' || i || '.example.com' WHEN 1 THEN 'QUIMBY' || i + 1 || '@example.com' WHEN 3 THEN 'test@test.com'
      ELSE 'quimby' || i || '@example.com' END,
    jsonb_build_object('home', '+1224303' || 6000 + i), CASE WHEN i % 2 = 0 THEN 7030 ELSE 94110 END, 'TX', NULL,
    CASE WHEN i = 5 THEN '2999-01-01' ELSE '2026-01-01'::timestamptz + i * interval '1 minute' END
  FROM generate_series(1, 500) AS i;`;

const CONFIG = `service: { base_url: sandbox }
sandbox: { people: 5000 }
warehouse: { type: postgres, url: "\${WAREHOUSE_URL}" }
inputs:
  customers:
    table: crm.customers
    key: tenant
    fields: { first_name: first_name, last_name: last_name, middle_name: middle, emails: email, phones: phones, state: state,
      zipcode: zip }
jobs:
  resolve_customers: { type: resolve, input: customers }
`;

test("check profiles an ugly table: one line each, with what fixes it, and no value", async () => {
  const setting = await makeSetting();
  await setting.query(UGLY);
  await writeFile(join(setting.cwd, "config.yaml"), CONFIG);
  const { code, stdout } = await runHere(["check"], setting);
  const lines = stdout
    .split("\n")
    .map((line) => line.replace(/^. input customers {2,}/u, (lead) => `${lead.charAt(0)} `).trim());
  const first = lines.findIndex((line) => line.startsWith("✓ can be read"));
  expect(
    lines.slice(
      first,
      lines.findIndex((line) => line.startsWith("✓ service")),
    ),
  ).toEqual([
    "✓ can be read with 8 columns",
    "✓ non-empty in a sample of 500 rows: email 100%, first_name 100%, last_name 100%, middle 0%, phones 100%, state 100%, zip 100%",
    "✗ key: 497 of 500 rows (99.4%) repeat the key of another row and would be rejected",
    "→ `key: [tenant, nr]`, which an index makes unique",
    "! email: 10.0% placeholders, 10.0% without @, 10.0% with capital letters",
    "! first_name: 10.0% with leading or trailing spaces",
    "! last_name: 5.0% placeholders",
    "! middle: empty in all sampled rows",
    "→ remove middle from `middle_name`",
    "! phones: jsonb, sent as JSON text",
    "→ `phones: phones_phones`, with the query below",
    "! zip: integer, so leading zeros are lost",
    "→ `zipcode: zip_zipcode`, with the query below",
    "! table: to convert 2 columns, use a query instead:",
    String.raw`→ sql: select *, array(select v#>>'{}' from jsonb_path_query(to_jsonb("phones"), 'strict $.**') as v where jsonb_typeof(v) in ('string', 'number') and v#>>'{}' ~ '^(?!\d{4}-\d\d-\d\d)([^0-9[:alpha:]]*[0-9]){7}') as "phones_phones", lpad("zip"::bigint::text, 5, '0') as "zip_zipcode" from "crm"."customers"`,
    "! normalize is off; it would change or drop 11.3% of the sampled values",
    "→ `normalize: true` drops 125 of 2,000 sampled values and avoids sending 101 of 451 addresses",
  ]);
  expect(code).toBe(2);
  expect(stdout).not.toMatch(/quimby|zacharias|1224303|7030|94110|K-\d|2999|n\/a|test@/iu);
});

test("check says that the service has deprecated an endpoint, until another path is set", async () => {
  const setting = await makeSetting();
  const baseUrl = await startSandbox(setting.cwd);
  const file = join(setting.cwd, "config.yaml");
  const text = configText({ baseUrl, jobs: "jobs:\n  resolve: { type: resolve, input: customers }\n" });
  const check = async () =>
    findingsOf((await runHereJson(["check"], setting)).document).filter((line) => line.startsWith("POST"));
  await writeFile(file, text);
  expect(await check()).toEqual([
    "POST /v1/resolve: ok, the key has access",
    "POST /v1/resolve: warning, works, but is deprecated",
  ]);
  await writeFile(
    file,
    text.replace(/^( +)base_url:/mu, "$1endpoints: { resolve: /v2/enrich }\n$1base_url:"),
  );
  expect(await check()).toEqual(["POST /v1/resolve: ok, the key has access"]);
  await writeFile(
    file,
    text.replace(/^( +)base_url:/mu, "$1endpoints: { resolve: /v3/resolve }\n$1base_url:"),
  );
  expect(await check()).toEqual(["POST /v1/resolve: wrong, doesn't exist (404)"]);
});
