import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { startStoppableDatabase } from "../support/stoppable-database.ts";
import { makeFolder, startCli } from "./support/cli.ts";
import { API_KEY, configText, createCustomers, runQuery, startSandbox } from "./support/setting.ts";

const ENRICH = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";

/** A run whose calls take their time, so that its warehouse can be stopped in the middle. */
async function startRun(retryFor: string) {
  const database = await startStoppableDatabase();
  await createCustomers(database.url, 3000);
  const folder = await makeFolder();
  const sandbox = await startSandbox(folder, ["--latency", "300"]);
  const config = configText({ baseUrl: sandbox, service: "  concurrency: 2\n", jobs: ENRICH });
  const cwd = await makeFolder({
    "config.yaml": config.replace("type: postgres,", `type: postgres, retry_for: ${retryFor},`),
  });
  const env = { WAREHOUSE_URL: database.url, PERSON_SERVICE_API_KEY: API_KEY };
  const start = () => startCli(["--json", "run"], { cwd, env });
  const running = start();
  const answered = () => runQuery(database.url, "SELECT count(*)::int AS n FROM person_data.enrichment");
  for (let n = 0; n === 0; [{ n = 0 } = {}] = (await answered().catch(() => [])) as { n?: number }[]) {
    await delay(100);
  }
  // The sandbox's own controls answer so.
  const ledger = async () =>
    (await (await fetch(`${sandbox}/_sandbox/ledger`)).json()) as {
      requests: number;
      contents: { received_more_than_once: number; distinct_records: number };
    };
  return { database, cwd, env, running, start, ledger };
}

test("a warehouse that is stopped and started again in the middle of a run costs nothing but time", async () => {
  const { database, running, ledger } = await startRun("5m");
  await database.stop();
  await running.logged('"event":"warehouse_unreachable"');
  await delay(2000);
  await database.start();
  await running.logged('"event":"warehouse_back"');
  const { code, stdout } = await running.result;
  expect(JSON.parse(stdout).jobs).toMatchObject([{ status: "succeeded", records_remaining: 0 }]);
  expect(code).toBe(0);
  const { contents } = await ledger();
  expect(contents.received_more_than_once).toBe(0);
  const [counted] = await runQuery(
    database.url,
    `SELECT (SELECT count(DISTINCT sent_hash)::int FROM person_data.lookup_state) AS records,
       (SELECT sum(records_sent)::int FROM person_data_ops.api_call) AS sent`,
  );
  expect(counted).toEqual({ records: contents.distinct_records, sent: contents.distinct_records });
});
