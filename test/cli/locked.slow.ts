import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Pooler, POOLER_TIMEOUT_MS, startPooler } from "../support/pgbouncer.ts";
import { setFaults, stopAtRest, untilCalled } from "./support/controls.ts";
import { type RunningCli, runCli, runJson, startCli } from "./support/cli.ts";
import { configText, createCustomers, makeSetting, type Setting, startSandbox } from "./support/setting.ts";

const ENRICH = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";
const ROWS = 1800;

// Whole processes, each at its pace, several of them at a time.
vi.setConfig({ testTimeout: 180_000 });

let pooler: Pooler;
beforeAll(async () => {
  pooler = await startPooler();
}, POOLER_TIMEOUT_MS);
afterAll(() => pooler.stop());

/** A warehouse with customers, and a service with these faults. */
async function makeSlowSetting(faults: string): Promise<Setting & { readonly serviceUrl: string }> {
  const setting = await makeSetting();
  await createCustomers(setting.url, ROWS);
  const serviceUrl = await startSandbox(setting.cwd, ["--faults", faults]);
  const service = "  concurrency: 1\n";
  await writeFile(
    join(setting.cwd, "config.yaml"),
    configText({ baseUrl: serviceUrl, service, jobs: ENRICH }),
  );
  return { ...setting, serviceUrl };
}

/** Starts a run and waits for its first call. */
async function startRun(setting: Setting, env: Readonly<Record<string, string>> = {}): Promise<RunningCli> {
  const running = startCli(["--json", "--log-level", "debug", "run"], {
    cwd: setting.cwd,
    env: { ...setting.env, ...env },
  });
  await running.logged('"event":"sending"');
  return running;
}

async function repeatsAt(serviceUrl: string): Promise<unknown> {
  const response = await fetch(`${serviceUrl}/_sandbox/ledger`);
  // Answer of the sandbox's controls.
  const { contents } = (await response.json()) as { contents: { received_more_than_once: number } };
  return contents.received_more_than_once;
}

const answered =
  "SELECT count(*)::int AS rows FROM person_data_state.lookup_row JOIN person_data_state.lookup_answer USING (content)";

describe.each([
  ["straight", (url: string) => url],
  ["through PgBouncer in transaction mode", (url: string) => pooler.through(url)],
])("a warehouse reached %s", (_, through) => {
  test.concurrent("a second run reports the lock's holder and exits 4; one that waits sends nothing twice", async () => {
    const setting = await makeSlowSetting("slow=10000");
    const env = { ...setting.env, WAREHOUSE_URL: through(setting.url) };
    const first = await startRun(setting, env);
    const waiting = startCli(["--json", "run", "--wait"], { cwd: setting.cwd, env });
    await waiting.logged('"event":"waiting_for_lock"');

    const [status, second] = await Promise.all([
      runCli(["status"], { cwd: setting.cwd, env }),
      runJson(["run"], { cwd: setting.cwd, env }),
    ]);
    expect(status.stdout).toMatch(
      /• enrich_customers has been running since 2\S+Z \(run \S+, process \d+ on \S+\)/,
    );
    expect([second.code, second.document.status]).toEqual([4, "locked"]);
    expect(second.document["jobs"]).toMatchObject([
      { job: "enrich_customers", status: "locked", requests: 0, error: { code: "locked" } },
    ]);
    expect(second.stdout).toContain(`process ${first.child.pid} on `);

    await setFaults(setting.serviceUrl, "");
    const ended = [await first.result, await waiting.result];
    expect(ended.map(({ code }) => code)).toEqual([0, 0]);
    const [, late] = ended.map(({ stdout }) => JSON.parse(stdout).jobs[0]);
    expect(late).toMatchObject({ status: "succeeded", records_sent: 0, records_read: ROWS });
    expect(await repeatsAt(setting.serviceUrl)).toBe(0);
  });

  test.concurrent("a run suspended for longer than its lock's lifetime commits nothing afterwards, and exits 4", async () => {
    const setting = await makeSlowSetting("slow=10000@enrich#1");
    const env = { ...setting.env, WAREHOUSE_URL: through(setting.url), PERSON_ETL_LOCK_LIFE_MS: "1500" };
    const first = await startRun(setting, env);
    await untilCalled(setting.serviceUrl, 1, first.child);
    await stopAtRest(first.child, setting);
    const next = startCli(["--json", "run", "--wait"], { cwd: setting.cwd, env });
    await next.logged('"event":"lock_taken_over"');
    first.child.kill("SIGCONT");
    const stopped = await first.result;
    const document = JSON.parse(stopped.stdout);
    expect([stopped.code, document.status, document.jobs[0].error.code]).toEqual([4, "locked", "lock_lost"]);
    const done = await next.result;
    expect([done.code, JSON.parse(done.stdout).status]).toEqual([0, "succeeded"]);
    expect(await setting.query(answered)).toEqual([{ rows: ROWS }]);
    expect(
      await setting.query(
        "SELECT status, count(*)::int AS runs FROM person_data_ops.sync_run GROUP BY 1 ORDER BY 1",
      ),
    ).toEqual([
      { status: "failed", runs: 1 },
      { status: "succeeded", runs: 1 },
    ]);
  });
});

test.concurrent("the job of a run that was killed on this machine is taken over at once", async () => {
  const setting = await makeSlowSetting("slow=300");
  const first = await startRun(setting);
  first.child.kill("SIGKILL");
  await first.result;
  const begun = performance.now();
  const next = await runJson(["run"], setting);
  expect([next.code, next.document.status]).toEqual([0, "succeeded"]);
  expect(next.stderr).toContain('"event":"lock_taken_over"');
  expect(performance.now() - begun).toBeLessThan(55_000);
  expect(await setting.query(answered)).toEqual([{ rows: ROWS }]);
});

test.concurrent("a signal releases the job, and ends a waiting run", async () => {
  const setting = await makeSlowSetting("slow=20000@enrich#1");
  const first = await startRun(setting);
  const waiting = startCli(["--json", "run", "--wait"], setting);
  await waiting.logged('"event":"waiting_for_lock"');
  waiting.child.kill("SIGTERM");
  const { code, stdout } = await waiting.result;
  expect([code, JSON.parse(stdout).status]).toEqual([143, "interrupted"]);
  first.child.kill("SIGINT");
  expect((await first.result).code).toBe(130);
  expect(
    await setting.query("SELECT released_at IS NOT NULL AS released FROM person_data_state.job_lock"),
  ).toEqual([{ released: true }]);
  expect(await setting.query("SELECT count(*)::int AS runs FROM person_data_ops.sync_run")).toEqual([
    { runs: 1 },
  ]);
});

test.concurrent("two runs of different jobs run in parallel", async () => {
  const setting = await makeSlowSetting("slow=300");
  const first = await startRun(setting);
  const other = ENRICH.replace("jobs:\n", "").replaceAll("enrich_customers", "enrich_too");
  const config = configText({ baseUrl: setting.serviceUrl, jobs: `${ENRICH}${other}` });
  await writeFile(join(setting.cwd, "other.yaml"), config);
  await delay(100);
  const second = await runJson(["--config", "other.yaml", "run", "enrich_too"], setting);
  expect([second.code, second.document.status]).toEqual([0, "succeeded"]);
  expect((await first.result).code).toBe(0);
});
