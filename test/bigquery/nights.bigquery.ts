import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CliResult, runCli, startCli } from "../cli/support/cli.ts";
import {
  configText,
  createCustomers,
  INSERT_CUSTOMERS,
  makeSetting,
  sampleRows,
  type Setting,
  startSandbox,
} from "../cli/support/setting.ts";
import { connectAsText } from "../load/postgres-context.ts";
import { compareWithPostgres } from "../publish/compare-with-postgres.ts";
import { rowsOfFile } from "../publish/duckdb-context.ts";
import { openRequestDoor, type RequestDoor } from "../support/bigquery/request-door.ts";
import { seededRandom, testSeed } from "../support/seeded-random.ts";
import { type BigQueryDestinationContext, openBigQueryContext, rowsOfDatasets } from "./bigquery-context.ts";

const ROWS = 300;
const NEW_ROWS = 60;
/** Kills of the publishing process each night. */
const KILLS = 6;
const SEED = testSeed(5);

let setting: Setting;
let sandbox: string;
let context: BigQueryDestinationContext;
let file: string;
let door: RequestDoor;
const random = seededRandom(SEED, 13);

beforeAll(async () => {
  setting = await makeSetting();
  sandbox = await startSandbox(setting.cwd);
  await createCustomers(setting.url, ROWS);
  context = await openBigQueryContext();
  file = join(setting.cwd, "people.duckdb");
  door = await openRequestDoor(context.target.apiEndpoint ?? "");
  const { project, dataset, opsDataset } = context.target;
  const publish = `publish:
  analytics: { type: bigquery, project: ${project}, dataset: ${dataset}, ops_dataset: ${opsDataset}, api_endpoint: "${door.url}" }
  local: { type: duckdb, path: "${file}" }
`;
  await writeFile(join(setting.cwd, "config.yaml"), publish + configText({ baseUrl: sandbox }));
});
afterAll(() => context.close());

const run = (args: readonly string[]): Promise<CliResult> => runCli(args, setting);

async function runNight(...args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await run(["run", "--yes", ...args]);
  if (code !== 0) throw new Error(`the night failed (${code}):\n${stdout}${stderr}`);
}

/** Publishes and compares; returns the exit code with the output, if it isn't 0. */
async function publish(): Promise<string> {
  const { code, stdout, stderr } = await run(["publish", "--verify"]);
  return code === 0 ? "published" : `${code}: ${stdout}${stderr}`;
}

/** Starts commands one by one and kills each process: at a request to BigQuery, or after a while. */
async function killed(...commands: readonly (readonly string[])[]): Promise<readonly string[]> {
  const signals: string[] = [];
  for (const command of commands) {
    const { child, result } = startCli(command, setting);
    if (random.chance(0.7)) {
      const moment = random.pick(["before", "during", "after"] as const);
      door.interrupt(random.below(60), moment, () => child.kill("SIGKILL"));
    } else {
      await Promise.race([delay(1_000 + random.below(6_000)), result]);
      child.kill("SIGKILL");
    }
    await result;
    signals.push(child.signalCode ?? "ended");
  }
  // The last interruption may not have been reached.
  door.interrupt(Number.POSITIVE_INFINITY, "before", () => {});
  return signals;
}

const publications = Array.from({ length: KILLS }, () => ["publish"]);

const inBigQuery = () => compareWithPostgres(setting.url, (table) => rowsOfDatasets(context.datasets, table));
const inDuckDb = () => compareWithPostgres(setting.url, (table) => rowsOfFile(file, table));

async function change(text: string, params?: readonly unknown[]): Promise<void> {
  const client = await connectAsText(setting.url);
  await client.query(text, params ? [...params] : undefined);
  await client.end();
}

async function nextMonths(): Promise<void> {
  const answer = await fetch(`${sandbox}/_sandbox/clock`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ days: 75 }),
  });
  expect(answer.status).toBe(200);
}

test("three nights with kills, an erasure, and a destination that is down leave equal tables everywhere", async () => {
  expect(await killed(["run", "--yes"], ...publications)).toContain("SIGKILL");
  await runNight();
  expect(await publish()).toBe("published");
  const first = await inBigQuery();
  expect(first.differing).toEqual({});
  expect(first.rows).toBeGreaterThan(5_000);
  expect((await inDuckDb()).differing).toEqual({});

  // Second night: BigQuery is unreachable, and a person is erased.
  door.goDown();
  await nextMonths();
  await change("UPDATE crm.customers SET city = 'Springfield', updated_at = '2026-11-01Z' WHERE id % 5 = 0");
  await change("DELETE FROM crm.customers WHERE id % 17 = 3");
  await runNight();
  const [person] = await setting.query(
    "SELECT service_pid AS pid FROM person_data.person ORDER BY 1 LIMIT 1",
  );
  const pid = String(person?.["pid"]);
  const erased = await run(["erase", "--pid", pid, "--yes", "--json"]);
  expect([erased.code, JSON.parse(erased.stdout)]).toMatchObject([3, { status: "pending" }]);
  expect(await publish()).toContain("1: ");
  expect((await inDuckDb()).differing).toEqual({});
  expect(Object.keys((await inBigQuery()).differing)).toContain("person");

  // Third night: everything is sent again.
  door.comeUp();
  await nextMonths();
  await change(INSERT_CUSTOMERS, [JSON.stringify(sampleRows(ROWS + NEW_ROWS).slice(ROWS))]);
  await killed(["run", "--yes", "--resend"], ...publications);
  await runNight();
  expect(await publish()).toBe("published");
  const last = await inBigQuery();
  expect(last.differing).toEqual({});
  expect((await inDuckDb()).differing).toEqual({});
  for (const table of ["person", "person_email", "enrichment"]) {
    const found = await context.datasets.session.rows({
      text: `SELECT COUNT(*) AS n FROM ${table} WHERE service_pid = @pid`,
      parameters: { pid },
    });
    expect([table, found]).toEqual([table, [{ n: 0 }]]);
  }
  process.stdout.write(
    `equal in Postgres, BigQuery and DuckDB (seed ${SEED}): ${first.rows}, ${last.rows} rows\n`,
  );
}, 900_000);
