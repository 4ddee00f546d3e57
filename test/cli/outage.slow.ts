import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { surveySpool } from "../../src/spool/files.ts";
import { givePort } from "../support/embedded-files.ts";
import { makeLastingFolder } from "../support/embedded-process.ts";
import { openStoppableDatabase } from "../support/stoppable-database.ts";
import { makeFolder, runJson, startCli } from "./support/cli.ts";
import { readLedger } from "./support/controls.ts";
import { API_KEY, configText, createCustomers, startSandbox } from "./support/setting.ts";
import { runSql } from "../support/run-sql.ts";

const ENRICH = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";

/** Time for runs that wait for stopped servers. */
const TIME_LIMIT_MS = 300_000;

let dataDir = "";
beforeAll(async () => {
  const { folder, remove } = await makeLastingFolder();
  dataDir = join(folder, "data-dir");
  await givePort(dataDir);
  return remove;
});

/** Starts a run with slow calls, so that its warehouse can be stopped during it. */
async function startRun() {
  const database = await openStoppableDatabase(dataDir);
  await runSql(
    database.url,
    "DROP SCHEMA IF EXISTS crm, person_data, person_data_ops, person_data_state CASCADE",
  );
  await createCustomers(database.url, 5000);
  const folder = await makeFolder();
  const sandbox = await startSandbox(folder, ["--latency", "1000"]);
  const config = configText({ baseUrl: sandbox, service: "  concurrency: 2\n", jobs: ENRICH });
  const cwd = await makeFolder({ "config.yaml": config });
  const env = {
    WAREHOUSE_URL: database.url,
    PERSON_SERVICE_API_KEY: API_KEY,
    PERSON_ETL_RETRY_FOR_MS: "2000",
  };
  const start = () => startCli(["--json", "run"], { cwd, env });
  const running = start();
  const loaded = () => runSql(database.url, "SELECT FROM person_data.enrichment LIMIT 1").catch(() => []);
  while ((await loaded()).length === 0) {
    if (running.child.exitCode !== null)
      throw new Error(`nothing was loaded: ${(await running.result).stdout}`);
    await delay(100);
  }
  return { database, cwd, env, running, start, ledger: () => readLedger(sandbox) };
}

test("a lasting outage ends the run with every answer on disk, and the next run sends none of them again", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const { database, cwd, env, running, start, ledger } = await startRun();
  await database.stop();
  const { code, stdout } = await running.result;
  const document = JSON.parse(stdout);
  expect([code, document.status]).toEqual([1, "failed"]);
  const [job] = document.jobs;
  expect(job.error.code).toBe("database_unreachable");
  expect(job.error.message).toMatch(
    /received responses? (?:is|are) saved in .*0-of-1; the next run of enrich_customers loads/u,
  );
  expect((await surveySpool(join(cwd, ".person-etl", "spool"))).contents).toHaveLength(1);

  await database.start();
  const [waiting] = (await surveySpool(join(cwd, ".person-etl", "spool"))).contents;
  for (const command of ["status", "plan"]) {
    const { document } = await runJson([command], { cwd, env });
    expect(document["jobs"]).toMatchObject([
      { waiting_answers: { calls: waiting?.calls, bytes: waiting?.bytes } },
    ]);
  }
  expect((await runJson(["check"], { cwd, env })).document["checks"]).toContainEqual({
    subject: "spool",
    status: "ok",
    message: expect.stringMatching(
      /^\d+ received responses? of enrich_customers \(\d.* MB\) waiting for its next run$/u,
    ),
  });
  const next = await start().result;
  expect(JSON.parse(next.stdout).jobs).toMatchObject([{ status: "succeeded", records_remaining: 0 }]);
  const after = await ledger();
  expect(after.contents.received_more_than_once).toBe(0);
  expect((await surveySpool(join(cwd, ".person-etl", "spool"))).contents).toEqual([]);
  const [counted] = await runSql(
    database.url,
    `SELECT (SELECT count(*)::int FROM person_data_state.lookup_answer WHERE outcome <> 'rejected') AS records,
       (SELECT sum(records_sent)::int FROM person_data_ops.api_call WHERE http_status = 200) AS sent`,
  );
  const { distinct_records: records } = after.contents;
  expect(counted).toEqual({ records, sent: records });
});
