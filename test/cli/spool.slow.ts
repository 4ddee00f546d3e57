import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { surveySpool } from "../../src/spool/files.ts";
import { runSql } from "../support/run-sql.ts";
import { atEnd } from "./support/at-end.ts";
import { runCli, runJson } from "./support/cli.ts";
import { readLedger } from "./support/controls.ts";
import { runHereJson } from "./support/in-process.ts";
import { makeServed, type Setting } from "./support/setting.ts";

const JOBS = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";

/** Copies the database, as for staging, and returns the environment of a configuration that differs in nothing else. */
async function copyDatabase({ url, env, query }: Setting) {
  const copy = new URL(url);
  copy.pathname += "_copy";
  const name = copy.pathname.slice(1);
  const server = inject("postgresUrl");
  // Sessions of the killed run.
  await query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
  );
  await runSql(server, `CREATE DATABASE ${name} TEMPLATE ${new URL(url).pathname.slice(1)}`);
  atEnd(async () => void (await runSql(server, `DROP DATABASE ${name} WITH (FORCE)`)));
  return { ...env, WAREHOUSE_URL: copy.href };
}

test("a copy of the database leaves received answers to the original until it is accepted as moved", {
  timeout: 120_000,
}, async () => {
  const setting = await makeServed({ rows: 900, jobs: JOBS, service: "  concurrency: 1\n" });
  /** Records that the service received more than once. */
  const repeats = async () => (await readLedger(setting.baseUrl)).contents.received_more_than_once;
  const killed = { ...setting, env: { ...setting.env, PERSON_ETL_CRASH_AT: "after_spool_fsync:1" } };
  expect((await runCli(["run"], killed)).code).toBe(null);
  const spool = join(setting.cwd, ".person-etl", "spool");
  const received = await surveySpool(spool);
  expect(received.contents.length).toBe(1);
  const copy = { ...setting, env: await copyDatabase(setting) };

  expect((await runHereJson(["run", "--max-records", "1", "--yes"], copy)).code).toBe(0);
  expect(await surveySpool(spool)).toEqual(received);
  const message = expect.stringContaining("to another copy of this database");
  expect((await runHereJson(["check"], copy)).document["checks"]).toContainEqual(
    expect.objectContaining({ subject: "spool", status: "warning", message }),
  );
  expect((await runHereJson(["status"], copy)).document["answers_left_behind"]).toMatchObject([{ message }]);

  const moved = await runHereJson(["migrate", "--accept-database"], copy);
  const answers = received.contents[0]?.calls;
  expect([moved.code, moved.document["taken_over"]]).toEqual([0, { answers, destinations: [] }]);
  const before = await repeats();
  expect((await runHereJson(["run", "--yes"], copy)).code).toBe(0);
  expect(await repeats()).toBe(before);
  expect((await surveySpool(spool)).contents).toEqual([]);
});

test("a run that can't write answers to disk ends, and names the folder; the calls in flight are still loaded", async () => {
  const setting = await makeServed({ rows: 2500, jobs: JOBS, service: "  concurrency: 2\n" });
  const full = await runJson(["run"], { ...setting, limit: "ulimit -f 20" });
  expect(full.code).toBe(1);
  const place = join(setting.cwd, ".person-etl", "spool");
  const message = expect.stringContaining(
    `The disk is full: received responses can't be written to ${place}`,
  );
  expect(full.document["jobs"]).toMatchObject([{ error: { code: "spool_full", message } }]);
  const { requests = 0 } = (await readLedger(setting.baseUrl)).endpoints["POST /v2/enrich"] ?? {};
  expect([1, 2]).toContain(requests);
  const loaded = "SELECT count(*)::int AS calls FROM person_data_ops.api_call WHERE http_status = 200";
  expect(await setting.query(loaded)).toEqual([{ calls: requests }]);
  expect((await runJson(["run"], setting)).code).toBe(0);
  expect((await readLedger(setting.baseUrl)).contents.received_more_than_once).toBe(0);
});
