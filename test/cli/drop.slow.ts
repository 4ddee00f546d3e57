import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { lockFile } from "../../src/process-state.ts";
import { connect, open } from "../load/bare-database.ts";
import { enrichSpec } from "../load/suite/people.ts";
import { runHere, runHereJson } from "./support/in-process.ts";
import { type ConfigParts, makeSetting, PEOPLE, type Setting } from "./support/setting.ts";

const JOBS = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";
const PUBLISH = "publish: { local: { type: duckdb, path: people.duckdb } }\n";
const SCHEMAS = "SELECT nspname AS name FROM pg_namespace WHERE nspname ~ '^(person_data|crm)' ORDER BY 1";

/** A trial against a sandbox that runs alone, with a table of the user in its schema. */
async function makeTrial(more = "", parts: ConfigParts = {}) {
  const sandbox = await startSandbox({ seed: 1, people: PEOPLE, compresses: false });
  onTestFinished(() => sandbox.close());
  const setting = await makeSetting({ rows: 20, baseUrl: sandbox.url, jobs: JOBS });
  await setting.configure(parts, more);
  expect((await runHereJson(["run"], setting)).code).toBe(0);
  return setting;
}

const drop = (setting: Setting, ...flags: readonly string[]) =>
  runHereJson(["drop", "--trial", ...flags], setting);

test("drop --trial lists what it removes, asks, removes the trial alone, and can be repeated", async () => {
  const setting = await makeTrial(PUBLISH);
  await setting.query("CREATE TABLE person_data.notes AS SELECT 1 AS id");
  await mkdir(join(setting.cwd, ".person-etl/spool"), { recursive: true });
  await writeFile(join(setting.cwd, ".person-etl/sandbox-1-5000.json"), "{}");

  const asked = await runHere(["drop", "--trial"], setting);
  expect(asked.code).toBe(3);
  expect(asked.stdout + asked.stderr).toMatch(/ {2}person_data_state +\d+ tables/u);
  expect(asked.stdout + asked.stderr).toContain("run again with --yes");
  expect(asked.stdout + asked.stderr).toContain(join(setting.cwd, ".person-etl/publish/duckdb/local.duckdb"));
  expect(asked.stdout + asked.stderr).toContain("They hold addresses of your own rows");
  expect((await drop(setting)).document).toMatchObject({ status: "limited", limited_by: "confirmation" });
  expect(await setting.query(SCHEMAS)).toHaveLength(4);

  const dropped = await drop(setting, "--yes");
  expect([dropped.code, dropped.document]).toMatchObject([
    0,
    {
      status: "done",
      service_host: expect.stringMatching(/^sandbox:1@127\.0\.0\.1:\d+$/u),
      sample_tables: [],
      schemas_left: ["person_data"],
      copies: [{ name: "local", type: "duckdb", place: join(setting.cwd, "people.duckdb") }],
    },
  ]);
  expect(await setting.query(SCHEMAS)).toEqual([{ name: "crm" }, { name: "person_data" }]);
  expect(await setting.query("SELECT count(*)::int AS rows FROM crm.customers")).toEqual([{ rows: 20 }]);
  expect(
    await setting.query("SELECT relname FROM pg_class WHERE relnamespace = 'person_data'::regnamespace"),
  ).toEqual([{ relname: "notes" }]);
  // The file of a sandbox that another configuration started.
  expect(await readdir(join(setting.cwd, ".person-etl"))).toContain("sandbox-1-5000.json");
  expect(await readdir(join(setting.cwd, ".person-etl/publish/duckdb"))).toEqual(["local.lock"]);

  expect((await drop(setting)).document).toMatchObject({ status: "done", service_host: null });
  // The copy of the former trial isn't continued, but refused.
  const again = await runHereJson(["run"], setting);
  expect(again.document["publications"]).toMatchObject([{ destination: "local", status: "refused" }]);
});

test("drop --trial refuses a warehouse of another service, one that nothing filled, and a running job", async () => {
  const setting = await makeTrial();
  await setting.query(
    "UPDATE person_data_state.job_lock SET released_at = NULL, host = 'etl-2', machine = NULL, expires_at = now() + interval '1 hour'",
  );
  const running = await drop(setting, "--yes");
  expect([running.code, running.document.error?.code]).toEqual([4, "locked"]);
  await setting.query("UPDATE person_data_ops.warehouse_identity SET service_host = 'api.example.com:443'");
  const real = await drop(setting, "--yes");
  expect([real.code, real.document.error?.code]).toEqual([2, "not_a_trial"]);
  await setting.query("DELETE FROM person_data_ops.warehouse_identity");
  const nothing = await drop(setting, "--yes");
  expect([nothing.code, nothing.document.error?.code]).toEqual([2, "not_a_trial"]);
  expect((await runHereJson(["drop", "--yes"], setting)).code).toBe(2);
  expect(await setting.query("SELECT count(*)::int AS rows FROM person_data.enrichment")).toEqual([
    { rows: 20 },
  ]);
});

test("drop --trial drops only its own names from a schema that it shares with others", async () => {
  const warehouse = '{ type: postgres, url: "${WAREHOUSE_URL}", state_schema: public }';
  const setting = await makeTrial(PUBLISH, { warehouse });
  await setting.query(`CREATE TABLE public.invoices_of_mine (id bigint GENERATED ALWAYS AS IDENTITY);
    CREATE FUNCTION public.double_of(n bigint) RETURNS bigint LANGUAGE sql RETURN n * 2;
    CREATE TYPE public.mood AS ENUM ('good')`);
  const dropped = await drop(setting, "--yes");
  expect([dropped.code, dropped.document]).toMatchObject([0, { schemas_left: ["public"] }]);
  expect(dropped.document["schemas"]).toMatchObject([
    { foreign: [] },
    { foreign: [] },
    { name: "public", foreign: ["public.double_of(bigint)", "public.invoices_of_mine", "public.mood"] },
  ]);
  const left =
    "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')";
  expect(
    await setting.query(`${left} UNION SELECT proname FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace ORDER BY 1`),
  ).toEqual([{ name: "double_of" }, { name: "invoices_of_mine" }, { name: "invoices_of_mine_id_seq" }]);
});

/** Inputs with tables of sample rows, created as for the sandbox; and one that no input names. */
async function makeSamples(setting: Setting): Promise<void> {
  const columns = [
    { name: "id", type: "bigint" },
    { name: "first_name", type: "text" },
  ] as const;
  for (const table of ["generated", "replaced", "unnamed"]) {
    const input = { ...enrichSpec().input, relation: { table: ["crm", table] } };
    await open(setting.url).createSampleTable(input, columns, [
      ["1", "Ada"],
      ["2", null],
    ]);
  }
  await setting.query("TRUNCATE crm.replaced; INSERT INTO crm.replaced VALUES (1, 'Ada'), (2, 'Grace')");
}

/** More inputs, before the jobs. */
const SAMPLES = `  generated: { table: crm.generated, key: id, fields: { first_name: first_name } }
  replaced: { table: crm.replaced, key: id, fields: { first_name: first_name } }
`;

test("drop --trial drops sample tables of inputs while they have the generated rows, and the sandbox's own state", async () => {
  const setting = await makeTrial();
  await makeSamples(setting);
  await setting.configure({ baseUrl: "sandbox", jobs: SAMPLES + JOBS });
  await setting.query("UPDATE person_data_ops.warehouse_identity SET service_host = 'sandbox:1'");
  await mkdir(join(setting.cwd, ".person-etl"), { recursive: true });
  for (const seed of [1, 2])
    await writeFile(join(setting.cwd, `.person-etl/sandbox-${seed}-5000.json`), "{}");
  const dropped = await drop(setting, "--yes");
  expect([dropped.code, dropped.document]).toMatchObject([
    0,
    { sample_tables: ["crm.generated"], sample_tables_left: ["crm.replaced"] },
  ]);
  expect(
    await setting.query("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'crm' ORDER BY 1"),
  ).toEqual([{ name: "customers" }, { name: "replaced" }, { name: "unnamed" }]);
  expect(await readdir(join(setting.cwd, ".person-etl"))).not.toContain("sandbox-1-5000.json");
  expect(await readdir(join(setting.cwd, ".person-etl"))).toContain("sandbox-2-5000.json");
});

test("a real service refuses sample rows as an input, and takes rows that replaced them", async () => {
  const setting = await makeSetting({ rows: 1 });
  await makeSamples(setting);
  const jobs = `${SAMPLES}${JOBS}  a: { type: enrich, input: generated }\n  b: { type: enrich, input: replaced }\n`;
  await setting.configure({ baseUrl: "http://127.0.0.1:1", jobs });
  const { stdout } = await runHere(["check"], setting);
  expect(stdout.split("\n").filter((line) => line.includes("names a table of sample rows"))).toEqual([
    expect.stringContaining("generated"),
  ]);
});

test("drop --trial refuses while an erasure is pending, and says how many are forgotten", async () => {
  const setting = await makeTrial();
  const erased = await runHere(["erase", "--email", "nobody@example.com", "--yes"], setting);
  expect(erased.stdout + erased.stderr).toContain("Suppressed in later runs");
  const asked = await runHere(["drop", "--trial"], setting);
  expect(asked.stdout + asked.stderr).toContain(
    "1 erasure, which later runs no longer know: repeat it with the real service.",
  );
  await setting.query(`INSERT INTO person_data_state.erasure_request
    SELECT gen_random_uuid(), gen_random_uuid(), '{}', '[]', true, now(), now(), ''`);
  const refused = await drop(setting, "--yes");
  expect([refused.code, refused.document.error?.code]).toEqual([2, "erasure_pending"]);
  expect(await setting.query(SCHEMAS)).toHaveLength(4);
});

test("drop --trial leaves working files of a destination that another process publishes to, and of others' destinations", async () => {
  const setting = await makeTrial(PUBLISH);
  const folder = join(setting.cwd, ".person-etl/publish/duckdb");
  await writeFile(join(folder, "other.duckdb"), "");
  const lock = await lockFile(join(folder, "local.lock"));
  const dropped = await drop(setting, "--yes");
  lock?.release();
  expect([dropped.code, dropped.document["destinations_left"]]).toEqual([0, ["local"]]);
  expect(await readdir(folder)).toEqual(
    expect.arrayContaining(["local.duckdb", "local.lock", "other.duckdb"]),
  );
});

test("drop --trial removes nothing if another service was recorded after the confirmation", async () => {
  const setting = await makeTrial();
  const client = await connect(setting.url);
  await client.query("BEGIN");
  await client.query("UPDATE person_data_ops.warehouse_identity SET service_host = 'api.example.com:443'");
  const dropping = drop(setting, "--yes");
  await expect
    .poll(
      () =>
        setting.query(
          "SELECT pid FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        ),
      { timeout: 20_000 },
    )
    .toHaveLength(1);
  await client.query("COMMIT");
  const dropped = await dropping;
  expect([dropped.code, dropped.document.error?.code]).toEqual([1, "warehouse_changed"]);
  expect(await setting.query(SCHEMAS)).toHaveLength(4);
});

test("drop --trial names a view of the user that reads the trial, and removes nothing", async () => {
  const setting = await makeTrial();
  await setting.query(
    "CREATE SCHEMA bi; CREATE VIEW bi.people AS SELECT full_name FROM person_data.profile_customers",
  );
  const refused = await drop(setting, "--yes");
  expect([refused.code, refused.document.error?.code]).toEqual([2, "trial_in_use"]);
  expect(refused.document.error?.problems?.[0]?.message).toContain(
    "view bi.people depends on view person_data.profile_customers",
  );
  expect(await setting.query(SCHEMAS)).toHaveLength(4);
});

test("a trial stays apart if only one of its schemas is changed", async () => {
  const setting = await makeTrial();
  for (const key of ["schema", "ops_schema", "state_schema"]) {
    await setting.configure({ warehouse: `{ url: "\${WAREHOUSE_URL}", ${key}: other }` });
    const { code, document } = await runHereJson(["run"], setting);
    expect([code, document.error?.code]).toEqual([2, "schemas_mixed"]);
    expect(document.error?.message).toContain("other not.");
  }
});
