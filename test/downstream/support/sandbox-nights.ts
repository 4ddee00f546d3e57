import { randomBytes } from "node:crypto";
import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sampleInputs } from "../../../packages/sandbox/src/sample-inputs.ts";
import { startSandbox } from "../../../packages/sandbox/src/start-sandbox.ts";
import { runCli } from "../../cli/support/cli.ts";
import { makeSetting, type Setting } from "../../cli/support/setting.ts";
import { bigQueryOfRun } from "../../support/bigquery/test-bigquery.ts";
import { runSql } from "../../support/run-sql.ts";
import { controlSandbox } from "../../support/sandbox-control.ts";
import { CONTACT_JOB, nightsConfig, PEOPLE, SEED, VIP } from "./nights-config.ts";
import { type NightTruth, readTruth } from "./night-truth.ts";

const ROWS = 2000;
const MEMBERS = 300;
const DAY_MS = 86_400_000;
/** Days from each night to the last one, which is now; people change in the month between the first two. */
const DAYS_AGO = [31, 1, 0];

/** One night, published. */
export interface Night {
  /** From 1. */
  readonly number: number;
  readonly runId: string;
  /** Published DuckDB file as it was after this night. */
  readonly duckDbFile: string;
  readonly truth: NightTruth;
}

/** A person with an input row. */
export interface ErasedPerson {
  readonly pid: string;
  readonly emails: readonly string[];
  readonly sourceKey: string;
}

/** Three nights of every job, and what changed between them. */
export interface SandboxNights {
  readonly postgresUrl: string;
  readonly bigQuery: PublishedDatasets;
  readonly nights: readonly Night[];
  /** Erased before the last night. */
  readonly erased: ErasedPerson;
}

/** Datasets as they are after the last night. */
export interface PublishedDatasets {
  readonly project: string;
  readonly apiEndpoint: string | null;
  readonly dataset: string;
  readonly opsDataset: string;
}

/** Key of hashes of erased people. */
export const ERASURE_SECRET = "a secret of the tests of what reads the warehouse";
const KEYS = { PERSON_SERVICE_USER_KEY: "user-key-of-the-nights", PERSON_ETL_ERASURE_KEY: ERASURE_SECRET };
const PUBLISHING = ["--config", "publish.yaml"];
const clockModule = new URL("../../support/shift-clock.ts", import.meta.url).href;

/** Runs the nights like a user, and publishes after each; `afterNight` reads the warehouse in between. */
export async function runSandboxNights(
  afterNight: (night: Night, at: Pick<SandboxNights, "postgresUrl" | "bigQuery">) => Promise<void>,
): Promise<SandboxNights> {
  const setting = await makeSetting();
  const sandbox = await startSandbox({ seed: SEED, people: PEOPLE });
  const control = (path: string, body?: object) => controlSandbox(sandbox.url, path, body);
  const dataset = `nights_${randomBytes(6).toString("hex")}`;
  const bigQuery = { ...(await bigQueryOfRun()), dataset, opsDataset: `${dataset}_ops` };
  await writeConfig(setting, sandbox.url, bigQuery);
  const nights: Night[] = [];
  let erased: ErasedPerson = { pid: "", emails: [], sourceKey: "" };
  let daysAgo = 0;
  try {
    await createCustomers(setting.url);
    await control("/search_plan", { state_ms: 20 });
    await control("/clock", { days: -(DAYS_AGO[0] ?? 0) });
    daysAgo = DAYS_AGO[0] ?? 0;
    await control("/contact_jobs", CONTACT_JOB);
    await control("/segments", { segment_id: VIP, name: "VIP customers", members: MEMBERS, batch: 50 });
    for (const [i, ago] of DAYS_AGO.entries()) {
      await control("/clock", { days: daysAgo - ago });
      daysAgo = ago;
      if (i === 1) await changeBeforeSecondNight(setting, control);
      if (i === 2) erased = await changeBeforeLastNight(setting, control);
      const night = await runNight({ setting, url: sandbox.url, number: i + 1, daysAgo });
      nights.push(night);
      await afterNight(night, { postgresUrl: setting.url, bigQuery });
    }
  } finally {
    await sandbox.close();
  }
  return { postgresUrl: setting.url, bigQuery, nights, erased };
}

/** Two configurations: of the jobs, and with the destinations. */
async function writeConfig({ cwd }: Setting, url: string, bigQuery: PublishedDatasets): Promise<void> {
  const { project, dataset, opsDataset, apiEndpoint } = bigQuery;
  const config = nightsConfig(url);
  const destinations = `publish:
  analytics: { type: bigquery, project: ${project}, dataset: ${dataset}, ops_dataset: ${opsDataset}${
    apiEndpoint === null ? "" : `, api_endpoint: "${apiEndpoint}"`
  } }
  local: { type: duckdb, path: people.duckdb }
`;
  await writeFile(join(cwd, "config.yaml"), config);
  await writeFile(join(cwd, "publish.yaml"), config + destinations);
}

interface NightPlan {
  readonly setting: Setting;
  readonly url: string;
  readonly number: number;
  readonly daysAgo: number;
}

async function runNight({ setting, url, number, daysAgo }: NightPlan): Promise<Night> {
  const args = ["--json", "run", "--yes", ...(number === 2 ? ["--resend"] : [])];
  const run = await runProgram(setting, args, {
    NODE_OPTIONS: `--import=${clockModule}`,
    TEST_CLOCK_AHEAD_MS: String(-daysAgo * DAY_MS),
  });
  // The program's own document.
  const { run_id: runId } = JSON.parse(run) as { run_id: string };
  await dateNight(setting, runId, daysAgo);
  if (number === 1) await statePlan(setting, runId);
  await runProgram(setting, [...PUBLISHING, "publish"]);
  const duckDbFile = join(setting.cwd, `night-${number}.duckdb`);
  await copyFile(join(setting.cwd, "people.duckdb"), duckDbFile);
  return { number, runId, duckDbFile, truth: await readTruth(url) };
}

async function runProgram(
  { cwd, env }: Setting,
  args: readonly string[],
  clock: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { code, stdout, stderr } = await runCli(args, { cwd, env: { ...env, ...KEYS, ...clock } });
  if (code !== 0) throw new Error(`person-etl ${args.join(" ")} ended with ${code}:\n${stdout}${stderr}`);
  return stdout;
}

/** The database's clock can't be moved, so the times that it took are moved afterwards. */
async function dateNight({ url }: Setting, runId: string, daysAgo: number): Promise<void> {
  const moved = { api_call: ["reserved_at"], sync_run: ["started_at", "finished_at"] };
  for (const [table, columns] of Object.entries(moved)) {
    const set = columns.map((column) => `${column} = ${column} - make_interval(days => ${daysAgo})`);
    await runSql(url, `UPDATE person_data_ops.${table} SET ${set.join(", ")} WHERE run_id = '${runId}'`);
  }
}

/** Figures of a refused call. */
const PLAN = {
  allowance_records_available: 120,
  overage_records_available: 0,
  records_requested: 500,
};

/** No call of the nights is refused for lack of records, so that one gets the figures of such a refusal. */
async function statePlan({ url }: Setting, runId: string): Promise<void> {
  await runSql(
    url,
    `UPDATE person_data_ops.api_call SET error_details = $1 WHERE call_id =
      (SELECT min(call_id::text)::uuid FROM person_data_ops.api_call WHERE run_id = '${runId}' AND endpoint = 'GET /usage')`,
    [JSON.stringify(PLAN)],
  );
}

/** Creates and fills `crm.customers`, the input of the nights. */
export async function createCustomers(url: string, count = ROWS): Promise<void> {
  await runSql(
    url,
    `CREATE SCHEMA crm; CREATE TABLE crm.customers (id bigint PRIMARY KEY, first_name text, last_name text, email text,
      work_email text, phone text, linkedin text, street text, city text, state text, zip text, updated_at timestamptz)`,
  );
  const rows = JSON.stringify([...sampleInputs({ seed: SEED, people: PEOPLE, rows: count })]);
  await runSql(
    url,
    "INSERT INTO crm.customers SELECT * FROM json_populate_recordset(NULL::crm.customers, $1::json)",
    [rows],
  );
}

type Control = (path: string, body?: object) => Promise<unknown>;

const deathOf = (pid: string, i: number) => ({
  service_pid: pid,
  obituary_id: `obit-of-the-night-${i}`,
  date_of_death: "2026-06-01",
  publication_last_update_date: null,
  first_observed_at: null,
  signal_metadata: { source: "ssdi", confidence_score: 0.9 },
});

/** Some rows are gone from the input, some have another city; members come and go, and three of them die. */
async function changeBeforeSecondNight({ url, query }: Setting, control: Control): Promise<void> {
  await runSql(url, "DELETE FROM crm.customers WHERE id % 31 = 7");
  await runSql(url, "UPDATE crm.customers SET city = 'Springfield', updated_at = now() WHERE id % 20 = 0");
  const members = await membersOf(query);
  const strangers = await strangersTo(query, 20);
  await control("/members", { segment_id: VIP, remove: members.slice(0, 40), add: strangers });
  // One of them is a customer in every night.
  await control("/deaths", { set: [...members.slice(50, 52), ...strangers.slice(-2, -1)].map(deathOf) });
}

/** Members come back, and a member who is a customer is erased. */
async function changeBeforeLastNight(setting: Setting, control: Control): Promise<ErasedPerson> {
  const { url, query } = setting;
  await runSql(url, "UPDATE crm.customers SET city = 'Shelbyville', updated_at = now() WHERE id % 20 = 10");
  const former = await query(
    `SELECT service_pid FROM person_data.segment_member WHERE NOT is_member AND segment_id = '${VIP}' ORDER BY 1 LIMIT 15`,
  );
  await control("/members", {
    segment_id: VIP,
    add: former.map((row) => String(row["service_pid"])),
    remove: (await membersOf(query)).slice(100, 110),
  });
  const [person] = await query(
    `SELECT service_pid, min(source_key) AS source_key, array_agg(DISTINCT email_address) AS emails
     FROM person_data.person_email JOIN person_data.identity_link USING (service_pid)
     WHERE service_pid IN (SELECT service_pid FROM person_data.segment_member WHERE is_member)
     GROUP BY 1 ORDER BY 1 LIMIT 1`,
  );
  const pid = String(person?.["service_pid"]);
  // An array of texts, as Postgres returns it.
  const emails = (person?.["emails"] ?? []) as readonly string[];
  await runProgram(setting, [...PUBLISHING, "erase", "--pid", pid, "--yes"]);
  return { pid, emails, sourceKey: String(person?.["source_key"]) };
}

async function membersOf(query: Setting["query"]): Promise<readonly string[]> {
  const rows = await query(
    `SELECT service_pid FROM person_data.segment_member WHERE is_member AND segment_id = '${VIP}' ORDER BY 1`,
  );
  return rows.map((row) => String(row["service_pid"]));
}

async function strangersTo(query: Setting["query"], count: number): Promise<readonly string[]> {
  const rows = await query(
    `SELECT service_pid FROM person_data.person
     WHERE service_pid NOT IN (SELECT service_pid FROM person_data.segment_member) ORDER BY 1 LIMIT ${count}`,
  );
  return rows.map((row) => String(row["service_pid"]));
}
