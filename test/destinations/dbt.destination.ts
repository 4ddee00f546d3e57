import { readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { runCli } from "../cli/support/cli.ts";
import { makeSetting, type Setting } from "../cli/support/setting.ts";
import { type DbtProject, type DbtRun, runDbt } from "../downstream/support/dbt.ts";
import { dbtOnPostgres, MARTS } from "../downstream/support/engines.ts";
import {
  comparable,
  type Marts,
  martsInDuckDb,
  martsInPostgres,
  plainRow,
  readMarts,
} from "../downstream/support/marts.ts";
import { CONTACT_JOB, nightsConfig, PEOPLE, SEED, VIP } from "../downstream/support/nights-config.ts";
import { createCustomers } from "../downstream/support/sandbox-nights.ts";
import { passMidnight } from "../support/held-day.ts";
import { S3_KEYS, S3_REGION, WAREHOUSE } from "../support/iceberg/start-judges.ts";
import { runSql } from "../support/run-sql.ts";
import { controlSandbox, livingAt } from "../support/sandbox-control.ts";
import { type IcebergContext, openIcebergContext, publishText } from "./iceberg-context.ts";
import { sparkEnvironment, sparkSettings } from "./spark.ts";

const ROWS = 300;
const MEMBERS = 60;
/** Days between the nights, in which people change at the service. */
const MONTH = 31;
const ERASURE_KEY = "a secret of the tests of dbt on Iceberg";
const WITHOUT_TESTS = ["--exclude-resource-type", "test", "--exclude-resource-type", "unit_test"];
const READERS = ["duckdb", "spark"] as const;
type Reader = (typeof READERS)[number];

interface Built extends DbtRun {
  readonly marts: Marts;
}

let setting: Setting;
let sandbox: Awaited<ReturnType<typeof startSandbox>>;
let context: IcebergContext;
let erased = "";
/** Builds after each night. */
const nights: Readonly<Record<Reader | "postgres", Built>>[] = [];

beforeAll(async () => {
  await passMidnight();
  setting = await makeSetting();
  sandbox = await startSandbox({ seed: SEED, people: PEOPLE });
  context = await openIcebergContext();
  const secrets = { S3_KEY: S3_KEYS.accessKeyId, S3_SECRET: S3_KEYS.secretAccessKey };
  const keys = { PERSON_SERVICE_USER_KEY: "user-key", PERSON_ETL_ERASURE_KEY: ERASURE_KEY };
  setting = { ...setting, env: { ...setting.env, ...secrets, ...keys } };
  const publish = publishText(context, context.judges.catalog, "${S3_SECRET}");
  await writeFile(join(setting.cwd, "config.yaml"), nightsConfig(sandbox.url) + publish);
  await createCustomers(setting.url, ROWS);
  await controlSandbox(sandbox.url, "/search_plan", { state_ms: 20 });
  await controlSandbox(sandbox.url, "/clock", { days: -MONTH });
  await controlSandbox(sandbox.url, "/contact_jobs", CONTACT_JOB);
  const vip = { segment_id: VIP, name: "VIP customers", members: MEMBERS, batch: 50 };
  await controlSandbox(sandbox.url, "/segments", vip);
  await runNight();
  nights.push(await buildAll("build", ...WITHOUT_TESTS));
  await changePeople();
  await runNight();
  nights.push(await buildAll("build"));
});
afterAll(async () => {
  await context.close();
  await sandbox.close();
});

async function program(...args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await runCli(args, setting);
  if (code !== 0) throw new Error(`person-etl ${args.join(" ")} ended with ${code}:\n${stdout}${stderr}`);
}

async function runNight(): Promise<void> {
  await program("run", "--yes");
  await program("publish", "--verify");
}

/** A month passes: some people move, members leave and die, and a person is erased. */
async function changePeople(): Promise<void> {
  await controlSandbox(sandbox.url, "/clock", { days: MONTH });
  await runSql(
    setting.url,
    "UPDATE crm.customers SET city = 'Springfield', updated_at = now() WHERE id % 3 = 0",
  );
  const members = await livingAt(sandbox.url, VIP);
  await controlSandbox(sandbox.url, "/members", { segment_id: VIP, remove: members.slice(0, 9) });
  const set = members.slice(20, 22).map((pid, i) => ({
    service_pid: pid,
    obituary_id: `obit-${i}`,
    date_of_death: "2026-06-01",
    publication_last_update_date: null,
    first_observed_at: null,
    signal_metadata: { source: "ssdi", confidence_score: 0.9 },
  }));
  await controlSandbox(sandbox.url, "/deaths", { set });
  const [person] = await setting.query(
    "SELECT min(service_pid) AS pid FROM person_data.person JOIN person_data.identity_link USING (service_pid)",
  );
  erased = String(person?.["pid"]);
  await program("erase", "--pid", erased, "--yes");
}

/** Builds by dbt in Postgres, and in the readers of the published tables. */
async function buildAll(...args: readonly string[]) {
  const folder = join(inject("runFolder"), "dbt-on-iceberg");
  const postgres = dbtOnPostgres(folder, setting.url, { person_etl_erasure_key: ERASURE_KEY });
  const duckdb = dbtOnDuckDb(folder);
  const spark = dbtOnSpark(folder);
  const runs = await Promise.all([
    runDbt(postgres, ["build", ...WITHOUT_TESTS]),
    runDbt(duckdb, args),
    runDbt(spark, args),
  ]);
  for (const [i, { results, seconds }] of runs.entries()) {
    const reader = ["Postgres", "DuckDB", "Spark"][i];
    process.stdout.write(`dbt in ${reader}: ${results.length} nodes, ${seconds} s\n`);
  }
  const marts = await readMarts(martsInPostgres(setting.url));
  return {
    postgres: { ...runs[0], marts },
    duckdb: { ...runs[1], marts: await readMarts(martsInDuckDb(duckdb)) },
    spark: { ...runs[2], marts: await martsByPyiceberg(Object.keys(marts)) },
  };
}

/** Variables of the package for the published tables. */
function variables() {
  const { namespace, opsNamespace } = context.target;
  return {
    person_etl_erasure_key: ERASURE_KEY,
    person_data_schema: namespace,
    person_data_ops_schema: opsNamespace,
  };
}

/** dbt on a DuckDB file of its own, with the catalog attached. */
function dbtOnDuckDb(folder: string): DbtProject {
  const { catalog, s3 } = context.judges;
  const own = join(folder, "duckdb");
  const { accessKeyId: key_id, secretAccessKey: secret } = S3_KEYS;
  const endpoint = new URL(s3).host;
  return {
    folder: own,
    output: {
      type: "duckdb",
      path: join(own, "analytics.duckdb"),
      schema: MARTS,
      extensions: ["httpfs", "iceberg"],
      secrets: [
        { type: "s3", key_id, secret, region: S3_REGION, endpoint, url_style: "path", use_ssl: false },
        // The test's catalog accepts any.
        { type: "iceberg", name: "lake", token: "a-token" },
      ],
      attach: [
        {
          path: WAREHOUSE,
          alias: "published",
          type: "iceberg",
          secret: "lake",
          options: { endpoint: catalog, access_delegation_mode: "none" },
        },
      ],
      settings: { TimeZone: "UTC" },
      threads: 4,
    },
    vars: { ...variables(), person_etl_views: false },
  };
}

/** dbt in a Spark session that writes into the catalog, too. */
function dbtOnSpark(folder: string): DbtProject {
  const { python } = context.judges;
  const settings = {
    ...sparkSettings(context.judges),
    "spark.master": "local[2]",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.defaultCatalog": "lake",
    "spark.sql.catalog.lake.default-namespace": `${MARTS}_staging`,
    // Tables are small: compiling takes longer than running.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
  };
  const [library = ""] = readdirSync(join(dirname(python), "..", "lib"));
  const sparkHome = join(dirname(python), "..", "lib", library, "site-packages", "pyspark");
  const archives = join(sparkHome, "python", "lib");
  return {
    folder: join(folder, "spark"),
    output: {
      type: "spark",
      method: "session",
      host: "unused",
      schema: MARTS,
      threads: 4,
      server_side_parameters: settings,
    },
    vars: variables(),
    env: { ...sparkEnvironment(context.judges), SPARK_HOME: sparkHome },
    modules: readdirSync(archives).map((name) => join(archives, name)),
  };
}

/** Reads the marts that Spark wrote. */
async function martsByPyiceberg(names: readonly string[]): Promise<Marts> {
  const marts: Record<string, Marts[string]> = {};
  for (const name of names) {
    const rows = await Promise.all(
      ["people", "reporting"].map((part) => context.ask({ table: `${MARTS}_${part}.${name}` })),
    );
    marts[name] = rows.flat().map(plainRow);
  }
  return marts;
}

test.for(READERS)("dbt builds on Iceberg tables in %s, from scratch and incrementally", (reader) => {
  for (const night of nights) {
    const { code, output } = night[reader];
    expect([code, code === 0 ? "" : output]).toEqual([0, ""]);
  }
  const last = nights[1]?.[reader].results ?? [];
  expect(last.filter(({ status }) => !["success", "pass", "no-op"].includes(status))).toEqual([]);
  expect(last.filter(({ status }) => status === "pass").length).toBeGreaterThan(100);
});

test.for(READERS)("marts of %s equal those that dbt builds in Postgres, row by row", (reader) => {
  expect(nights.length).toBe(2);
  for (const [night, built] of nights.entries()) {
    const expected = comparable(built.postgres.marts);
    expect(Object.keys(expected).length).toBeGreaterThan(12);
    const found = comparable(built[reader].marts);
    for (const [name, rows] of Object.entries(expected)) {
      expect([night, name, found[name]]).toEqual([night, name, rows]);
    }
  }
  const rowsOf = (name: string) => nights[1]?.[reader].marts[name]?.length ?? 0;
  expect(rowsOf("dim_person")).toBeGreaterThan(200);
  // The second night added versions.
  expect(rowsOf("dim_person_history")).toBeGreaterThan(rowsOf("dim_person"));
  expect(rowsOf("suppression_list")).toBeGreaterThan(10);
});

test.for(READERS)("a person whose erasure is published is in no mart of %s", (reader) => {
  const [before, after] = nights.map((night) => JSON.stringify(night[reader].marts));
  expect(before).toContain(erased);
  expect(after).not.toContain(erased);
});
