import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { describeThisProcess, hasEnded } from "../../src/jobs/runner-process.ts";
import type { RunnerProcess } from "../../src/load/runs/job-lock.ts";

/** A sleeping process, as it would describe itself. */
async function startSleeper() {
  const child = spawn("sleep", ["60"]);
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child, "spawn");
  const ourselves = await describeThisProcess();
  return { child, ourselves, described: await describe(child.pid ?? 0, ourselves) };
}

async function describe(pid: number, ourselves: RunnerProcess): Promise<RunnerProcess> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  return { ...ourselves, pid, processStart: stat.split(") ")[1]?.split(" ")[19] ?? "" };
}

test("a process describes itself by machine, number and start, the same every time", async () => {
  const ourselves = await describeThisProcess();
  expect(ourselves).toEqual({
    host: hostname(),
    pid: process.pid,
    machine: expect.stringMatching(/^[0-9a-f-]{36} pid:\[\d+\]$/),
    processStart: expect.stringMatching(/^\d+$/),
  });
  expect(await describeThisProcess()).toEqual(ourselves);
  expect(await hasEnded(ourselves, ourselves)).toBe(false);
});

test("a process that runs hasn't ended, also while it is stopped; one that was killed has", async () => {
  const { child, ourselves, described } = await startSleeper();
  expect(await hasEnded(described, ourselves)).toBe(false);
  child.kill("SIGSTOP");
  expect(await hasEnded(described, ourselves)).toBe(false);
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(await hasEnded(described, ourselves)).toBe(true);
});

test("a process whose number a later one has got has ended", async () => {
  const { ourselves, described } = await startSleeper();
  expect(await hasEnded({ ...described, processStart: "1" }, ourselves)).toBe(true);
});

test("a process of which only the exit code is left has ended", async () => {
  // The shell starts a process and, while it runs, replaces itself by a program that never reaps it.
  const parent = spawn("sh", ["-c", "sleep 1 & echo $!; exec sleep 60"]);
  onTestFinished(() => void parent.kill("SIGKILL"));
  const [line] = await once(parent.stdout.setEncoding("utf8"), "data");
  const ourselves = await describeThisProcess();
  const zombie = await describe(Number(line), ourselves);
  for (let waitedMs = 0; waitedMs < 5000 && !(await hasEnded(zombie, ourselves)); waitedMs += 20)
    await delay(20);
  expect(await hasEnded(zombie, ourselves)).toBe(true);
  expect(await readFile(`/proc/${zombie.pid}/stat`, "utf8")).toContain(") Z ");
});

test.each([
  ["on another machine", { machine: "another boot pid:[4026531836]" }],
  ["if the machine is unknown", { machine: null }],
])("the state of a process %s is unknown, regardless of its number and host name", async (_, change) => {
  const { child, ourselves, described } = await startSleeper();
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(await hasEnded({ ...described, ...change }, ourselves)).toBe(false);
  expect(await hasEnded({ ...described, ...change }, { ...ourselves, ...change, machine: null })).toBe(false);
});
