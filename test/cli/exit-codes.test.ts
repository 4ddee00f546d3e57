import { expect, onTestFinished, test } from "vitest";
import { startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { unusedPort } from "../support/unused-port.ts";
import { runHere, runHereJson } from "./support/in-process.ts";
import { makeSetting, PEOPLE, type Setting } from "./support/setting.ts";

/** Returns the jobs in the document of `run --json`. */
function jobsOf(document: { readonly [key: string]: unknown }): readonly object[] {
  return document["jobs"] as readonly object[]; // by the contract
}

/** A setting of one job with a sandbox in this process: a run starts no other one. */
async function makeServedSetting(rows: number): Promise<Setting> {
  const sandbox = await startSandbox({ seed: 1, people: PEOPLE, compresses: false });
  onTestFinished(() => sandbox.close());
  const jobs = "jobs:\n  resolve: { type: resolve, input: customers }\n";
  return await makeSetting({ rows, baseUrl: sandbox.url, jobs });
}

test("a missing table is the same problem for check, plan and run, which create nothing, not even sample rows", async () => {
  const setting = await makeSetting();
  for (const command of ["plan", "run"]) {
    const { code, document } = await runHereJson([command], setting);
    expect([code, document.error?.problems?.[0]]).toEqual([
      2,
      {
        line: expect.any(Number),
        path: "inputs.customers.table",
        message: `Can't read crm.customers: relation "crm.customers" does not exist.`,
        hint: "Create the table, or correct `table:`; a table outside the search path needs its schema.",
      },
    ]);
  }
  const { code, stdout } = await runHere(["check"], setting);
  expect([code, stdout]).toEqual([2, expect.stringContaining(`relation "crm.customers" does not exist`)]);
  expect(await setting.query("SELECT nspname FROM pg_namespace WHERE nspname ~ '^(crm|person)'")).toEqual([]);
});

test("the user's own cap exits 0, an unknown job 2, a missing confirmation 3", async () => {
  const setting = await makeServedSetting(60);
  const capped = await runHereJson(["run", "resolve", "--max-records", "10"], setting);
  expect([capped.code, capped.document.status]).toEqual([0, "limited"]);
  expect(jobsOf(capped.document)[0]).toMatchObject({ limited_by: "max_records", records_sent: 10 });

  const unknown = await runHereJson(["run", "resolv"], setting);
  expect([unknown.code, unknown.document.status]).toEqual([2, "failed"]);
  expect(unknown.document.error?.problems?.[0]?.path).toBe("jobs.resolv");

  const asked = await runHereJson(["run", "resolve", "--resend"], setting);
  expect([asked.code, asked.document.status]).toEqual([3, "limited"]);
  expect(jobsOf(asked.document)[0]).toMatchObject({ limited_by: "confirmation", records_sent: 0 });

  const agreed = await runHereJson(["run", "resolve", "--resend", "--yes"], setting);
  expect([agreed.code, agreed.document.status]).toEqual([0, "succeeded"]);
});

test("while another process has a job, run exits 4, with --wait after a while, and status says who has it", async () => {
  const setting = await makeServedSetting(20);
  await runHere(["run"], setting);
  await setting.query(`UPDATE person_data_state.job_lock SET released_at = NULL, run_id = 'theirs', host = 'etl-2',
    pid = 4711, machine = NULL, process_start = NULL, heartbeat_at = now(), expires_at = now() + interval '1 hour'`);
  for (const wait of [[], ["--wait", "1s"]]) {
    const { code, document, stderr } = await runHereJson(["run", ...wait], setting);
    expect([code, document.status]).toEqual([4, "locked"]);
    expect(jobsOf(document)).toMatchObject([{ status: "locked", requests: 0, error: { code: "locked" } }]);
    expect(stderr.includes('"event":"waiting_for_lock"')).toBe(wait.length > 0);
  }
  expect((await runHere(["status"], setting)).stdout).toMatch(
    /• resolve has been running since 2\S+Z \(run theirs, process 4711 on etl-2\)/u,
  );
});

test("check and run say which right a role lacks to create the schemas", async () => {
  const setting = await makeSetting();
  const url = new URL(setting.url);
  const role = `reader_${url.pathname.slice(1)}`;
  await setting.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'; CREATE SCHEMA crm; GRANT USAGE ON SCHEMA crm TO ${role};
    CREATE TABLE crm.customers AS SELECT 1 AS id, '' AS first_name, '' AS last_name, '' AS email, '' AS work_email, '' AS phone,
      '' AS city; GRANT SELECT ON crm.customers TO ${role}`);
  [url.username, url.password] = [role, "secret"];
  const env = { ...setting.env, WAREHOUSE_URL: url.href };
  try {
    const checked = await runHereJson(["check"], { ...setting, env });
    expect(checked.code).toBe(2);
    expect(checked.document["checks"]).toContainEqual(
      expect.objectContaining({
        subject: "schema person_data",
        status: "wrong",
        hint: expect.stringContaining(`CREATE SCHEMA "person_data" AUTHORIZATION "${role}"`),
      }),
    );
    const ran = await runHereJson(["run"], { ...setting, env });
    expect([ran.code, ran.document.error?.code]).toEqual([2, "no_right_to_create"]);
  } finally {
    await setting.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  }
});

test("migrate prints the DDL without a database, creates the tables, and finds them there", async () => {
  const setting = await makeSetting();
  const nowhere = { ...setting, env: { ...setting.env, WAREHOUSE_URL: "postgresql://u@127.0.0.1:1/none" } };
  const printed = await runHere(["migrate", "--print"], nowhere);
  expect(printed.code).toBe(0);
  expect(printed.stdout).toMatch(/create table "person_data"\."person"/i);

  expect((await runHereJson(["migrate"], setting)).document["migrations"]).toEqual([
    "0001-tables",
    "0002-derived-columns",
    "0003-reader-indexes",
    "0004-fingerprint",
    "0005-index-of-sent-content",
    "0006-answers-by-content",
    "0007-places-and-requests",
    "0008-database-of-destination",
    "0009-tables-of-publications",
    "0010-history-of-people",
    "0011-prices-and-errors",
    "0012-records-of-pushes",
    "0013-profiles-of-inputs",
    "0014-keys-and-checks",
    "0015-shares-of-runs",
    "0016-lag-of-releases",
    "0017-oldest-unreleased-change",
  ]);
  expect((await runHereJson(["migrate"], setting)).document["migrations"]).toEqual([]);
});

const accept = (address: string) => ["migrate", "--accept-service", address];

test("a new address of the service is accepted, but never that of another service after the sandbox, or of the sandbox", async () => {
  const jobs = "jobs:\n  resolve: { type: resolve, input: customers }\n";
  const setting = await makeSetting({ rows: 30, jobs });
  const host = `127.0.0.1:${await unusedPort()}`;
  /** Hint with which a command is refused. */
  const hintFor = async (command: readonly string[]) => {
    const { code, document } = await runHereJson(command, setting);
    expect([code, document.error?.code]).toEqual([2, "another_service"]);
    return document.error?.problems?.[0]?.hint;
  };
  expect((await runHereJson(accept("sandbox:1"), setting)).document).not.toHaveProperty("service_host");
  expect((await runHereJson(["run"], setting)).code).toBe(0);
  expect(await hintFor(accept("sandbox:1"))).toContain("person-etl drop --trial");

  await setting.configure({ baseUrl: `http://${host}` });
  for (const command of [["run"], ["plan"], ["search", "nurses"], accept(host)]) {
    expect(await hintFor(command)).toContain("person-etl drop --trial");
  }
  expect((await runHere(["check"], setting)).stdout).toContain(
    "contains a trial with invented people (sandbox:1)",
  );

  await setting.query("UPDATE person_data_ops.warehouse_identity SET service_host = 'api.example.com:443'");
  expect(await hintFor(["run"])).toContain(`migrate --accept-service ${host}`);
  await hintFor(accept("127.0.0.1:2"));
  const accepted = await runHereJson(accept(host), setting);
  expect([accepted.code, accepted.document["service_host"]]).toEqual([0, host]);

  for (const [baseUrl, address, hint] of [
    ["https://api.example.com", "api.example.com:443", `If ${host} was a sandbox, run once more with it`],
    ["sandbox", "sandbox:1", ""],
  ] as const) {
    await setting.configure({ baseUrl });
    for (const command of [["run"], accept(address)]) {
      const found = await hintFor(command);
      expect(found).toContain(hint);
      expect(found).not.toContain("accept-service");
    }
  }
});
