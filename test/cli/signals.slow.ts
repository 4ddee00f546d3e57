import { spawnSync } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { openDoor } from "../support/door.ts";
import { waitUntilGone } from "../support/embedded-files.ts";
import { untilCalled } from "./support/controls.ts";
import { type RunningCli, runJson, startCli } from "./support/cli.ts";
import { makeServed, makeSetting, type Setting } from "./support/setting.ts";

const SLOW = {
  rows: 1800,
  service: "  concurrency: 1\n",
  jobs: "jobs:\n  enrich_customers: { type: enrich, input: customers }\n",
};

/** A run with a slow first call, so that a signal arrives while it is in flight and others haven't started. */
async function startSlowRun(firstMs: number): Promise<{ setting: Setting; running: RunningCli }> {
  const setting = await makeServed(SLOW, "--faults", `slow=${firstMs}@enrich#1`);
  const running = startCli(["--json", "--log-level", "debug", "run"], setting);
  await untilCalled(setting.baseUrl, 1, running.child);
  return { setting, running };
}

test.concurrent.for([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("%s completes the call in flight, keeps its answer, and exits %i", async ([signal, exitCode]) => {
  const { setting, running } = await startSlowRun(5000);
  running.child.kill(signal);
  // The signal that a terminal and npm both send counts once.
  await delay(20);
  running.child.kill(signal);
  const { code, stdout } = await running.result;
  const document = JSON.parse(stdout);
  expect([code, document.status]).toEqual([exitCode, "interrupted"]);
  const [job] = document.jobs;
  expect(job).toMatchObject({ status: "interrupted", requests: 1, records_sent: 500 });
  expect(job.records_remaining).toBeGreaterThan(1000);
  const people = await setting.query("SELECT count(*)::int AS answered FROM person_data.enrichment");
  expect(people).toEqual([{ answered: 500 + job.records_duplicate }]);

  const next = await runJson(["run"], setting);
  expect([next.code, next.document.status]).toEqual([0, "succeeded"]);
  expect(next.document["jobs"]).toMatchObject([
    { records_unchanged: 500 + job.records_duplicate + job.records_rejected_before_sending },
  ]);
});

test.concurrent("a call without an answer is abandoned 20 s after SIGTERM, counted and recorded as possibly billed", async () => {
  const { setting, running } = await startSlowRun(120_000);
  const begun = performance.now();
  running.child.kill("SIGTERM");
  const { code, stdout } = await running.result;
  const seconds = (performance.now() - begun) / 1000;
  expect([code, JSON.parse(stdout).status]).toEqual([143, "interrupted"]);
  expect(seconds).toBeGreaterThan(19);
  expect(seconds).toBeLessThan(60);
  expect(
    await setting.query(
      `SELECT possibly_billed, settled_at IS NOT NULL AS settled, records_sent, records_reserved FROM person_data_ops.api_call`,
    ),
  ).toEqual([{ possibly_billed: true, settled: true, records_sent: "500", records_reserved: "500" }]);
  expect(
    await setting.query("SELECT records_reserved FROM person_data_state.budget_use WHERE period = 'day'"),
  ).toEqual([{ records_reserved: "500" }]);
  const next = await runJson(["run"], setting);
  expect(next.document["jobs"]).toMatchObject([{ status: "succeeded", possibly_billed_twice: 500 }]);
});

test.concurrent("a run's sandbox ends with the run, even if the run is killed", async () => {
  const setting = await makeSetting({ rows: 400 });
  const running = startCli(["--json", "run"], setting);
  await running.logged('"event":"sandbox_started"');
  const [pid, ...others] = sandboxesOf(running);
  expect([pid, others]).toEqual([expect.any(Number), []]);
  running.child.kill("SIGKILL");
  await running.result;
  await waitUntilGone(pid ?? 0);
});

test("SIGTERM ends a run within 30 s though its database connections are silent", async () => {
  const setting = await makeServed(SLOW, "--faults", "slow=500");
  const door = await openDoor(setting.url, { isOpen: true });
  const env = { ...setting.env, WAREHOUSE_URL: door.url };
  const running = startCli(["--json", "--log-level", "debug", "run"], { ...setting, env });
  await untilCalled(setting.baseUrl, 1, running.child);
  door.silence();
  const begun = performance.now();
  running.child.kill("SIGTERM");
  const { code, stdout } = await running.result;
  expect([code, JSON.parse(stdout).status]).toEqual([143, "interrupted"]);
  expect(performance.now() - begun).toBeLessThan(30_000);
});

/** Process ids of the children of a command. */
function sandboxesOf({ child }: RunningCli): number[] {
  return spawnSync("pgrep", ["-P", String(child.pid)], { encoding: "utf8" })
    .stdout.split("\n")
    .filter((line) => line !== "")
    .map(Number);
}
