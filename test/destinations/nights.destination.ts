import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startCli, runCli } from "../cli/support/cli.ts";
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
import { comparedTables, comparedViews, compareWithPostgres } from "../publish/compare-with-postgres.ts";
import { openRequestDoor, type RequestDoor } from "../support/bigquery/request-door.ts";
import { S3_KEYS, S3_REGION, WAREHOUSE } from "../support/iceberg/start-judges.ts";
import { seededRandom, testSeed } from "../support/seeded-random.ts";
import { type IcebergContext, openIcebergContext } from "./iceberg-context.ts";
import { queryBySpark } from "./spark.ts";

const ROWS = 200;
const NEW_ROWS = 40;
/** Kills of the publishing process each night. */
const KILLS = 5;
const SEED = testSeed(5);

let setting: Setting;
let sandbox: string;
let context: IcebergContext;
let door: RequestDoor;
const random = seededRandom(SEED, 17);

beforeAll(async () => {
  setting = await makeSetting();
  sandbox = await startSandbox(setting.cwd);
  await createCustomers(setting.url, ROWS);
  context = await openIcebergContext();
  door = await openRequestDoor(context.judges.catalog);
  const { namespace, opsNamespace } = context.target;
  const publish = `publish:
  lake:
    type: iceberg
    catalog: ${door.url}/iceberg
    warehouse: ${WAREHOUSE}
    namespace: ${namespace}
    ops_namespace: ${opsNamespace}
    s3_endpoint: ${context.judges.s3}
    s3_region: ${S3_REGION}
    access_key_id: \${S3_KEY}
    secret_access_key: file:s3-secret
`;
  await writeFile(join(setting.cwd, "s3-secret"), S3_KEYS.secretAccessKey, { mode: 0o600 });
  await writeFile(join(setting.cwd, "config.yaml"), publish + configText({ baseUrl: sandbox }));
  setting = { ...setting, env: { ...setting.env, S3_KEY: S3_KEYS.accessKeyId } };
});
afterAll(() => context.close());

async function runNight(...args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await runCli(["run", "--yes", ...args], setting);
  if (code !== 0) throw new Error(`the night failed (${code}):\n${stdout}${stderr}`);
}

/** Publishes and compares; returns the exit code with the output, if it isn't 0. */
async function publish(): Promise<string> {
  const { code, stdout, stderr } = await runCli(["publish", "--verify"], setting);
  return code === 0 ? "published" : `${code}: ${stdout}${stderr}`;
}

/** Starts commands one by one and kills each process: at a request to the catalog, or after a while. */
async function killed(...commands: readonly (readonly string[])[]): Promise<readonly string[]> {
  const signals: string[] = [];
  for (const command of commands) {
    const { child, result } = startCli(command, setting);
    if (random.chance(0.6)) {
      const moment = random.pick(["before", "during", "after"] as const);
      door.interrupt(random.below(80), moment, () => child.kill("SIGKILL"));
    } else {
      await Promise.race([delay(1_000 + random.below(12_000)), result]);
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

const byPyiceberg = () =>
  compareWithPostgres(setting.url, (table) => context.ask({ table: context.nameOf(table) }));

/** Tables that Spark compacts. */
const COMPACTED = 8;

/** Compares all tables and views, read by Spark; after it has compacted some, if wanted. */
async function bySpark(...options: readonly "compact"[]) {
  const names = [...comparedTables, ...comparedViews.map(({ name }) => name)];
  const queries = Object.fromEntries(names.map((name) => [name, `SELECT * FROM ${context.nameOf(name)}`]));
  const compacted = options.includes("compact") ? comparedTables.slice(0, COMPACTED) : [];
  const found = await queryBySpark(
    context.judges,
    queries,
    compacted.map((table) => context.nameOf(table)),
  );
  const read = async (name: string) => found.get(name) ?? [];
  const [tables, views] = [
    await compareWithPostgres(setting.url, read),
    await compareWithPostgres(setting.url, read, comparedViews),
  ];
  return { differing: { ...tables.differing, ...views.differing }, rows: tables.rows, ofViews: views.rows };
}

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

test("three nights with kills, rivals, an erasure, and a catalog that is down leave equal tables", async () => {
  expect(await killed(["run", "--yes"], ...publications)).toContain("SIGKILL");
  await runNight();
  expect(await publish()).toBe("published");
  const first = await byPyiceberg();
  expect(first.differing).toEqual({});
  expect(first.rows).toBeGreaterThan(3_000);
  const inSpark = await bySpark();
  expect(inSpark.differing).toEqual({});
  expect(inSpark.ofViews).toBeGreaterThan(500);

  // Second night: the catalog is unreachable, and a person is erased.
  door.goDown();
  await nextMonths();
  await change("UPDATE crm.customers SET city = 'Springfield', updated_at = '2026-11-01Z' WHERE id % 5 = 0");
  await change("DELETE FROM crm.customers WHERE id % 17 = 3");
  await runNight();
  const [person] = await setting.query(
    "SELECT service_pid AS pid FROM person_data.person ORDER BY 1 LIMIT 1",
  );
  const pid = String(person?.["pid"]);
  expect((await context.objectsWith(pid)).length).toBeGreaterThan(0);
  const erased = await runCli(["erase", "--pid", pid, "--yes", "--json"], setting);
  expect([erased.code, JSON.parse(erased.stdout)]).toMatchObject([3, { status: "pending" }]);
  expect(await publish()).toContain("1: ");
  expect(Object.keys((await byPyiceberg()).differing)).toContain("person");

  // Third night: everything is sent again, and processes are killed; then two publish at once.
  door.comeUp();
  await nextMonths();
  await change(INSERT_CUSTOMERS, [JSON.stringify(sampleRows(ROWS + NEW_ROWS).slice(ROWS))]);
  await killed(["run", "--yes", "--resend"], ...publications);
  await runNight();
  await change("UPDATE person_data.person SET full_name = full_name || ' é', _synced_at = now()");
  const rivals = await Promise.all([1, 2].map(() => runCli(["publish"], setting)));
  // One may be locked out by the other (4).
  expect(rivals.map(({ code }) => code).filter((code) => ![0, 4].includes(code ?? -1))).toEqual([]);
  expect(await publish()).toBe("published");
  const last = await byPyiceberg();
  expect(last.differing).toEqual({});
  expect((await bySpark()).differing).toEqual({});
  // Tombstones name erased people on purpose.
  const left = await context.objectsWith(pid);
  expect(left.filter((address) => !/\/tombstone_[^/]+\/data\//u.test(address))).toEqual([]);
  expect(
    await setting.query("SELECT FROM person_data_ops.erasure_subject WHERE completed_at IS NULL"),
  ).toEqual([]);

  // A compaction by Spark changes nothing for either side.
  expect((await bySpark("compact")).differing).toEqual({});
  await change(
    "UPDATE person_data.person SET full_name = 'Compacted', _synced_at = now() WHERE full_name > 'M'",
  );
  expect(await publish()).toBe("published");
  expect((await byPyiceberg()).differing).toEqual({});
  process.stdout.write(
    `equal in Postgres, pyiceberg and Spark (seed ${SEED}): ${first.rows}, ${last.rows} rows\n`,
  );
}, 1_800_000);
