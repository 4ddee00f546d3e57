import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { mkdtemp, mkdir, readFile, stat } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import type { Page } from "playwright-core";
import { beforeAll, expect, inject, test } from "vitest";
import { parse } from "yaml";
import { readPostgresAddress } from "../../src/postgres-address.ts";
import { atEnd } from "../cli/support/at-end.ts";
import { openChromium } from "../support/chromium.ts";
import { takeMigratedDatabase } from "../support/migrated-database.ts";
import { runDbt } from "./support/dbt.ts";
import { drawDashboard, openSuperset, pictureDashboard } from "./support/drawn-dashboard.ts";
import { ADMIN, startSuperset, type TestSuperset } from "./support/superset.ts";

const run = promisify(execFile);
const bundle = resolve("dashboards/superset");
const SCHEMA = "analytics_reporting";
/** Number of charts of each dashboard. */
const DASHBOARDS = {
  "usage-and-cost": 14,
  "coverage-and-freshness": 8,
  "segments-and-deaths": 13,
  "pipeline-health": 11,
} as const;

let folder: string;
let warehouse: Client;
/** Address of the role of the dashboards. */
let readerUrl: string;
let reader: Client;
let superset: TestSuperset;
let zip: string;
let browser: { readonly page: Page; readonly errors: readonly string[] };

/** Runs the script of the bundle as its users do. */
function importBundle(args: readonly string[]) {
  const { host, port, user, password, database } = readPostgresAddress(readerUrl);
  const uri = `postgresql://${user}:${password}@${host}:${port}/${database}`;
  const env = { PATH: process.env["PATH"], SQLALCHEMY_URI: uri, SUPERSET_PASSWORD: ADMIN.password };
  return run("python3", [join(bundle, "import.py"), "--schema", SCHEMA, ...args], { env });
}

beforeAll(async () => {
  folder = await mkdtemp(join(inject("runFolder"), "superset-"));
  const database = await takeMigratedDatabase();
  atEnd(() => database.release());
  warehouse = await connect(database.url);
  readerUrl = await createReader(database.url);
  reader = await connect(readerUrl);
  const [, started] = await Promise.all([buildMarts(database.url), startSuperset(folder)]);
  superset = started;
  const chromium = await openChromium();
  zip = join(folder, "person-etl.zip");
  await importBundle(["--zip", zip]);
  await superset.command(["import-dashboards", "-p", zip, "-u", ADMIN.name]);
  browser = await openSuperset(chromium, superset.url);
});

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  atEnd(() => client.end());
  return client;
}

/** Creates the role that `dashboards/README.md` describes, and returns its address. */
async function createReader(url: string): Promise<string> {
  const role = `bi_${randomBytes(6).toString("hex")}`;
  await warehouse.query(`CREATE SCHEMA ${SCHEMA};
    CREATE ROLE ${role} LOGIN PASSWORD 'synthetic';
    GRANT USAGE ON SCHEMA ${SCHEMA} TO ${role};
    ALTER DEFAULT PRIVILEGES IN SCHEMA ${SCHEMA} GRANT SELECT ON TABLES TO ${role}`);
  const owner = warehouse;
  atEnd(() => owner.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
  const address = new URL(url);
  address.username = role;
  address.password = "synthetic";
  return address.href;
}

/** Builds the marts of an empty warehouse, and fills them. */
async function buildMarts(url: string): Promise<void> {
  const { host, port, user, password, database: dbname } = readPostgresAddress(url);
  const output = { type: "postgres", host, port, user, password, dbname, schema: "analytics", threads: 4 };
  const built = await runDbt({ folder: join(folder, "dbt"), output, vars: {} }, ["run"]);
  expect([built.code, built.code === 0 ? "" : built.output]).toEqual([0, ""]);
  for (const { table_name: table } of datasets) await warehouse.query(`DELETE FROM ${SCHEMA}.${table}`);
  await warehouse.query(`SET search_path = ${SCHEMA}, pg_temp`);
  await warehouse.query(await readFile(new URL("support/reporting-rows.sql", import.meta.url), "utf8"));
  await warehouse.query("RESET search_path");
}

interface Dataset {
  readonly table_name: string;
  readonly columns: readonly { readonly column_name: string; readonly expression?: string }[];
}
const datasets = await Promise.all(
  globSync("datasets/*.yaml", { cwd: bundle })
    .toSorted()
    // test/dashboards checks the shape.
    .map(async (file) => parse(await readFile(join(bundle, file), "utf8")) as Dataset),
);

test("datasets have the columns of the marts that dbt builds", async () => {
  for (const { table_name: table, columns } of datasets) {
    const { rows } = await reader.query<{ name: string }>(
      "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2",
      [SCHEMA, table],
    );
    const stored = columns.filter(({ expression }) => expression === undefined);
    expect([table, stored.map((column) => column.column_name).toSorted()]).toEqual([
      table,
      rows.map(({ name }) => name).toSorted(),
    ]);
  }
});

test("only its owner can read the file with the database's password", async () => {
  expect((await stat(zip)).mode & 0o777).toBe(0o600);
});

test("the role of the dashboards can't read a person", async () => {
  const tables = ["person_data.person", "person_data_ops.api_call", "analytics_people.dim_person"];
  for (const table of tables)
    await expect(reader.query(`SELECT FROM ${table}`)).rejects.toMatchObject({ code: "42501" });
});

test("every chart is drawn for this role, without an error in the console", async () => {
  const pictures = process.env["PERSON_ETL_SCREENSHOTS"] ?? folder;
  await mkdir(pictures, { recursive: true });
  const figures: Record<string, string> = {};
  for (const [name, count] of Object.entries(DASHBOARDS)) {
    const charts = await drawDashboard(browser.page, superset.url, `person-etl-${name}`, count);
    expect(charts.filter(({ problem }) => problem !== null)).toEqual([]);
    for (const { name: chart, figure } of charts) if (figure !== "") figures[chart] = figure;
    const picture = join(pictures, `superset-${name}.png`);
    await pictureDashboard(browser.page, picture);
    await superset.reduceColors(picture);
    expect((await stat(picture)).size).toBeLessThan(200_000);
  }
  expect(browser.errors).toEqual([]);
  expect(figures).toEqual({
    Spend: "$ 19,737.10",
    "Records billed": "1,844,711",
    "Possible further spend": "$ 29.30",
    "Match rate": "89.0%",
    People: "124,310",
    "Fields known per person": "64.3%",
    "Stalest table": "51.5",
    "Stale tables": "1",
    Members: "45,891",
    "Net change": "+8,661",
    Deaths: "844",
    "Deaths of members": "754",
    "Job changes": "852",
    Moves: "1,137",
    Succeeded: "97.9%",
    "Failed runs": "2",
    "Retried requests": "1.3%",
    "Open rejects": "1,076",
  });
});

test("a second import replaces everything and duplicates nothing", async () => {
  const { stdout } = await importBundle(["--server", superset.url, "--user", ADMIN.name]);
  expect(stdout).toContain("Imported.");
  const count = async (kind: string) => {
    const reply = await browser.page.request.get(`${superset.url}/api/v1/${kind}/`);
    // Superset's answer.
    return ((await reply.json()) as { count: number }).count;
  };
  expect([await count("dashboard"), await count("chart"), await count("dataset")]).toEqual([4, 46, 13]);
  const charts = await drawDashboard(browser.page, superset.url, "person-etl-segments-and-deaths", 13);
  expect(charts.filter(({ problem }) => problem !== null)).toEqual([]);
});

test("charts that can't be read or have no rows are found", async () => {
  await warehouse.query(`REVOKE SELECT ON ${SCHEMA}.fct_deaths_daily FROM ${new URL(readerUrl).username};
    DELETE FROM ${SCHEMA}.fct_segment_membership_daily`);
  const charts = await drawDashboard(browser.page, superset.url, "person-etl-segments-and-deaths", 13);
  const denied = "permission denied for table fct_deaths_daily";
  const short = (problem: string | null) => (problem?.includes(denied) ? denied : problem);
  expect(Object.fromEntries(charts.map(({ name, problem }) => [name, short(problem)]))).toEqual({
    Members: "no rows",
    "Net change": "no figure",
    Deaths: denied,
    "Deaths of members": denied,
    "Members per segment": "no rows",
    "Additions and removals per day": "no rows",
    "Deaths per week": denied,
    "Segments in the period": "no rows",
    "Results of pushes per day": null,
    "Last pushes": null,
    "People who changed, per week": null,
    "Job changes": null,
    Moves: null,
  });
});

test("a wrong password and an unreachable server are reported", async () => {
  const refused = importBundle(["--server", superset.url, "--user", "nobody"]);
  await expect(refused).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("HTTP 401") });
  const nowhere = importBundle(["--server", "http://127.0.0.1:1", "--user", ADMIN.name]);
  await expect(nowhere).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("http://127.0.0.1:1 can't be reached"),
  });
});
