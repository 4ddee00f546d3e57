import { join } from "node:path";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { exampleQueries } from "../../src/cli/commands/database.ts";
import { isAlive, postmasterPid, waitUntilGone } from "../support/embedded-files.ts";
import { makeLastingFolder } from "../support/embedded-process.ts";
import { atEnd } from "./support/at-end.ts";
import { runCli, runJson, startCli } from "./support/cli.ts";
import { type ConfigParts, configText, startSandbox } from "./support/setting.ts";
import { runSql } from "../support/run-sql.ts";

/** A folder with a configuration without dependencies: sandbox and embedded database. @param sql query of the input */
async function makeEmbedded(parts: ConfigParts = {}, sql?: string) {
  const { folder: cwd, remove } = await makeLastingFolder();
  atEnd(remove);
  const text = configText({ ...parts, warehouse: "{ url: embedded }" })
    .replace(/people: \d+/u, "people: 200")
    .replace("table: crm.customers", (table) => (sql === undefined ? table : `sql: "${sql}"`));
  await writeFile(join(cwd, "config.yaml"), `${text}data_dir: data-dir\n`);
  return { cwd, dataDir: join(cwd, "data-dir") };
}

test.concurrent("with sandbox and embedded database one command does everything, and the second sends nothing", async () => {
  const { cwd, dataDir } = await makeEmbedded();
  const checked = await runCli(["check"], { cwd });
  expect(checked.code).toBe(0);
  expect(checked.stdout).toContain("the embedded database will be created in");
  expect(checked.stdout).toContain("doesn't exist yet; the first run creates it with sample rows");
  const status = await runCli(["status", "--json"], { cwd });
  expect([status.code, JSON.parse(status.stdout)]).toMatchObject([2, { error: { code: "not_set_up" } }]);
  expect(await readdir(cwd)).toEqual(["config.yaml"]);

  const first = await runCli(["run"], { cwd });
  expect(first.code).toBe(0);
  expect(first.stdout).toMatch(
    /\n✓ Done in [\d.]+ s: [\d,]+ records sent, [\d,]+ billed, \d+ people enriched\.\n$/,
  );
  expect(first.stdout).toContain("  person-etl database\n");
  expect(first.stdout).toContain("set `service.base_url` and `warehouse.url` in config.yaml.\n");

  const second = await runJson(["run"], { cwd });
  expect([second.code, second.document.status]).toEqual([0, "succeeded"]);
  expect(second.document["jobs"]).toMatchObject([{ requests: 0 }, { requests: 0 }, { requests: 0 }]);
  expect(await postmasterPid(dataDir)).toBeNull();

  const database = startCli(["--json", "database"], { cwd });
  const { how_to_connect: lines } = JSON.parse(await database.firstLine());
  const [, port] = /-p (\d+)/.exec(lines.join("\n")) ?? [];
  const password = (await readFile(join(dataDir, "postgres", "reader-password"), "utf8")).trim();
  const url = `postgresql://reader:${password}@127.0.0.1:${port}/warehouse`;
  const queries = [
    ...exampleQueries("person_data", { customers: { key: ["id"] } }).map(({ sql }) => sql.join("\n")),
    "TABLE person_data_ops.sync_run",
  ];
  for (const sql of queries) expect((await runSql(url, sql)).length).toBeGreaterThan(0);
  await expect(runSql(url, "CREATE TABLE person_data.other (n int)")).rejects.toThrow(
    "read-only transaction",
  );
  database.child.kill("SIGINT");
  expect((await database.result).code).toBe(0);
  expect(await postmasterPid(dataDir)).toBeNull();
});

test.concurrent("a second signal stops a run and its embedded database immediately", async () => {
  const baseUrl = await startSandbox(".", ["--latency", "10000"]);
  const rows =
    "SELECT id, 'Ann' AS first_name, 'Lee' || id AS last_name, NULL AS email, NULL AS work_email, '+1224303' || 6000 + id AS phone, '' AS city FROM generate_series(1, 50) AS id";
  const { cwd, dataDir } = await makeEmbedded({ baseUrl }, rows);
  const env = { PERSON_SERVICE_API_KEY: "any" };
  const running = startCli(["--log-level", "debug", "run"], { cwd, env });
  await running.logged('"event":"sending"');
  const pid = (await postmasterPid(dataDir)) ?? 0;
  expect(isAlive(pid)).toBe(true);
  running.child.kill("SIGTERM");
  await running.logged("a second signal stops at once");
  running.child.kill("SIGINT");
  expect((await running.result).code).toBe(143);
  await waitUntilGone(pid);
});
