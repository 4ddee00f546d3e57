import { execFile } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { surveySpool } from "../../src/spool/files.ts";
import { atEnd } from "./support/at-end.ts";
import { runHereJson } from "./support/in-process.ts";
import { makeFolder, runCli, runJson, startCli } from "./support/cli.ts";
import { configText, createCustomers, makeSetting, type Setting, startSandbox } from "./support/setting.ts";
import { runSql } from "../support/run-sql.ts";

const run = promisify(execFile);
const TIME_LIMIT_MS = 120_000;
const ENRICH = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";

/** Records received by the sandbox since its reset. */
interface SeenBySandbox {
  readonly endpoints: Readonly<Record<string, { readonly requests: number }>>;
  readonly contents: {
    readonly distinct_records: number;
    readonly received_more_than_once: number;
    readonly billed_more_than_once: number;
  };
}

let sandbox = "";
beforeAll(async () => {
  sandbox = await startSandbox(await makeFolder());
});

async function seen(): Promise<SeenBySandbox> {
  // Answer of the sandbox's controls.
  return (await (await fetch(`${sandbox}/_sandbox/ledger`)).json()) as SeenBySandbox;
}

/** A warehouse with a number of customers; one call at a time by default. */
async function prepare(rows: number, more = "", concurrency = 1): Promise<Setting> {
  await fetch(`${sandbox}/_sandbox/reset`, {
    method: "POST",
    headers: { "content-type": "application/json" },
  });
  const setting = await makeSetting();
  await createCustomers(setting.url, rows);
  const config = configText({
    baseUrl: sandbox,
    service: `  concurrency: ${concurrency}\n`,
    jobs: `${ENRICH}${more}`,
  });
  await writeFile(join(setting.cwd, "config.yaml"), config);
  return setting;
}

/** Expects an answer for every distinct record that the service received. */
async function expectAllLoaded({ query, cwd }: Setting): Promise<void> {
  const { contents } = await seen();
  const [state] = await query(
    "SELECT count(*)::int AS records FROM person_data_state.lookup_answer WHERE outcome <> 'rejected'",
  );
  expect(state).toEqual({ records: contents.distinct_records });
  expect(await surveySpool(join(cwd, ".person-etl", "spool"))).toEqual({ contents: [], quarantined: [] });
}

describe("a run that is killed", () => {
  // One call at a time; a batch has at most 500 records.
  test.each([
    ["after_receive", 500, 1],
    ["before_spool_write", 500, 1],
    ["after_spool_write", 500, 1],
    ["after_spool_fsync", 0, 2],
    // The next call is already in flight.
    ["after_spool_removal", 500, 2],
  ])(
    "%s sends at most %i records again: those of the call in flight",
    { timeout: TIME_LIMIT_MS },
    async (point, mostSentAgain, safe) => {
      const setting = await prepare(1900);
      const env = { ...setting.env, PERSON_ETL_CRASH_AT: `${point}:2` };
      const { child, result } = startCli(["--json", "run", "--run-id", "killed"], { ...setting, env });
      await result;
      expect(child.signalCode ?? child.exitCode).toBe("SIGKILL");
      const { contents } = await surveySpool(join(setting.cwd, ".person-etl", "spool"));
      expect(contents.reduce((sum, { calls }) => sum + calls, 0)).toBeGreaterThanOrEqual(
        point === "after_spool_fsync" ? 1 : 0,
      );

      const next = await runJson(["run", "--run-id", "next"], setting);
      expect([next.code, next.document.status]).toEqual([0, "succeeded"]);
      const { contents: records } = await seen();
      expect(records.received_more_than_once).toBeLessThanOrEqual(mostSentAgain);
      expect(records.billed_more_than_once).toBeLessThanOrEqual(mostSentAgain);
      await expectAllLoaded(setting);
      // Its received answers are loaded under its id, by itself or by the next run.
      const [answered] = await setting.query(
        `SELECT count(*)::int AS calls FROM person_data_ops.api_call
         WHERE run_id = 'killed' AND http_status = 200 AND NOT possibly_billed`,
      );
      expect(answered?.["calls"]).toBeGreaterThanOrEqual(safe);
    },
  );
});

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
  timeout: TIME_LIMIT_MS,
}, async () => {
  const setting = await prepare(900);
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
  const before = (await seen()).contents.received_more_than_once;
  expect((await runHereJson(["run", "--yes"], copy)).code).toBe(0);
  expect((await seen()).contents.received_more_than_once).toBe(before);
  expect((await surveySpool(spool)).contents).toEqual([]);
});

test("a full spool disk ends the run and names the folder; calls in flight are still loaded", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const disk = await makeFolder();
  // Only root can create a small disk, and not in every container; otherwise a limit on file sizes is used.
  const isSmall = await run("mount", ["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", disk]).then(
    () => true,
    () => false,
  );
  if (isSmall) atEnd(async () => void (await run("umount", [disk])));
  const setting = await prepare(2500, `data_dir: ${disk}\n`, 2);
  const ballast = join(disk, "ballast");
  if (isSmall) await writeFile(ballast, Buffer.alloc(1000 * 1024));

  const full = await runJson(["run"], isSmall ? setting : { ...setting, limit: "ulimit -f 20" });
  expect(full.code).toBe(1);
  const error =
    full.document.error ??
    (full.document["jobs"] as { error: { code: string; message: string } }[])[0]?.error;
  expect(error).toMatchObject({
    code: "spool_full",
    message: expect.stringContaining(
      `The disk is full: received answers can't be written to ${join(disk, "spool")}`,
    ),
  });
  const { requests } = (await seen()).endpoints["POST /v2/enrich"] ?? { requests: 0 };
  expect(requests).toBeLessThanOrEqual(2);
  await expect(
    setting.query("SELECT count(*)::int AS calls FROM person_data_ops.api_call WHERE http_status = 200"),
  ).resolves.toEqual([{ calls: requests }]);

  await rm(ballast, { force: true });
  if (isSmall) await run("mount", ["-o", "remount,size=100m", disk]);
  const next = await runJson(["run"], setting);
  expect([next.code, next.document.status]).toEqual([0, "succeeded"]);
  expect((await seen()).contents.received_more_than_once).toBe(0);
});
