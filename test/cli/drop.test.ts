import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { runHere, runHereJson } from "./support/in-process.ts";
import { configText, makeSetting, PEOPLE, type Setting } from "./support/setting.ts";

const JOBS = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";
const SCHEMAS = "SELECT nspname AS name FROM pg_namespace WHERE nspname ~ '^(person_data|crm)' ORDER BY 1";

/** A trial against a sandbox that runs alone, with a table of the user in its schema. */
async function makeTrial(publish = ""): Promise<Setting> {
  const sandbox = await startSandbox({ seed: 1, people: PEOPLE, compresses: false });
  onTestFinished(() => sandbox.close());
  const setting = await makeSetting({ rows: 20 });
  await writeFile(
    join(setting.cwd, "config.yaml"),
    `${configText({ baseUrl: sandbox.url, jobs: JOBS })}${publish}`,
  );
  expect((await runHereJson(["run"], setting)).code).toBe(0);
  return setting;
}

const drop = (setting: Setting, ...flags: readonly string[]) =>
  runHereJson(["drop", "--trial", ...flags], setting);

test("drop --trial lists what it removes, asks, removes the trial alone, and can be repeated", async () => {
  const setting = await makeTrial("publish: { local: { type: duckdb, path: people.duckdb } }\n");
  await setting.query("CREATE TABLE person_data.notes AS SELECT 1 AS id");
  await mkdir(join(setting.cwd, ".person-etl/spool"), { recursive: true });
  await writeFile(join(setting.cwd, ".person-etl/sandbox-1-5000.json"), "{}");

  const asked = await runHere(["drop", "--trial"], setting);
  expect(asked.code).toBe(3);
  expect(asked.stdout + asked.stderr).toMatch(/ {2}person_data_state +\d+ tables/u);
  expect(asked.stdout + asked.stderr).toContain("run again with --yes");
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
  expect(
    (await readdir(join(setting.cwd, ".person-etl"))).filter((name) => name.startsWith("sandbox")),
  ).toEqual([]);

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

test.each(["schema", "ops_schema", "state_schema"])(
  "a trial stays apart if only %s is changed",
  async (key) => {
    const setting = await makeTrial();
    const text = configText({ jobs: JOBS, warehouse: `{ url: "\${WAREHOUSE_URL}", ${key}: other }` });
    await writeFile(join(setting.cwd, "config.yaml"), text);
    const refused = await runHereJson(["run"], setting);
    expect([refused.code, refused.document.error?.code]).toEqual([2, "schemas_mixed"]);
    expect(refused.document.error?.message).toContain("other not.");
  },
);
