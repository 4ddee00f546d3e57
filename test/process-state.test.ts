import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import {
  describeThisProcess,
  ownerOfFile,
  ownerPrefix,
  type RunnerProcess,
  stateOfProcess,
} from "../src/process-state.ts";

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
    machine: expect.stringMatching(/^[0-9a-f-]{36}-\d+$/),
    processStart: expect.stringMatching(/^\d+$/),
  });
  expect(await describeThisProcess()).toEqual(ourselves);
  expect(await stateOfProcess(ourselves, ourselves)).toBe("running");
  const { host: _, ...owner } = ourselves;
  expect(ownerOfFile(`${ownerPrefix(ourselves)}aB3xYz`)).toEqual(owner);
  expect(ownerOfFile("anything")).toEqual({ pid: 0, processStart: null, machine: null });
});

test("a process that runs hasn't ended, also while it is stopped; one that was killed has", async () => {
  const { child, ourselves, described } = await startSleeper();
  expect(await stateOfProcess(described, ourselves)).toBe("running");
  child.kill("SIGSTOP");
  expect(await stateOfProcess(described, ourselves)).toBe("running");
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(await stateOfProcess(described, ourselves)).toBe("ended");
});

test("a process whose number a later one has got has ended", async () => {
  const { ourselves, described } = await startSleeper();
  expect(await stateOfProcess({ ...described, processStart: "1" }, ourselves)).toBe("ended");
});

test("a process of which only the exit code is left has ended", async () => {
  // The shell starts a process and, while it runs, replaces itself by a program that never reaps it.
  const parent = spawn("sh", ["-c", "sleep 1 & echo $!; exec sleep 60"]);
  onTestFinished(() => void parent.kill("SIGKILL"));
  const [line] = await once(parent.stdout.setEncoding("utf8"), "data");
  const ourselves = await describeThisProcess();
  const zombie = await describe(Number(line), ourselves);
  for (
    let waitedMs = 0;
    waitedMs < 5000 && (await stateOfProcess(zombie, ourselves)) !== "ended";
    waitedMs += 20
  )
    await delay(20);
  expect(await stateOfProcess(zombie, ourselves)).toBe("ended");
  expect(await readFile(`/proc/${zombie.pid}/stat`, "utf8")).toContain(") Z ");
});

test.each([
  ["on another machine", { machine: "another-boot-4026531836" }],
  ["if the machine is unknown", { machine: null }],
])("the state of a process %s is unknown, regardless of its number and host name", async (_, change) => {
  const { child, ourselves, described } = await startSleeper();
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(await stateOfProcess({ ...described, ...change }, ourselves)).toBe("elsewhere");
  expect(await stateOfProcess({ ...described, ...change }, { ...ourselves, ...change, machine: null })).toBe(
    "elsewhere",
  );
});
