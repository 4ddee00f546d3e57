import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { makeFolder, runCli, startCli } from "./support/cli.ts";

/** PIDs of a process's children. */
async function childrenOf(pid: number): Promise<readonly string[]> {
  const threads = await readdir(`/proc/${pid}/task`);
  const lists = await Promise.all(threads.map((id) => readFile(`/proc/${pid}/task/${id}/children`, "utf8")));
  return lists.join(" ").split(" ").filter(Boolean);
}

test("a process leaves no core, opens no inspector, and gives the sandbox no secret", async () => {
  const env = { PERSON_SERVICE_API_KEY: "key-4711", WAREHOUSE_URL: "postgres://u:hunter2@h/d" };
  const running = startCli(["sandbox", "--json", "--port", "0"], {
    cwd: await makeFolder(),
    env,
    limit: "ulimit -c unlimited 2>/dev/null || true",
  });
  await running.firstLine();
  const pid = running.child.pid ?? 0;
  expect(await readFile(`/proc/${pid}/limits`, "utf8")).toMatch(/^Max core file size +0 +0 /m);
  running.child.kill("SIGUSR1");
  const [child = "none"] = await childrenOf(pid);
  const environment = await readFile(`/proc/${child}/environ`, "utf8");
  expect(environment).toContain("PATH=");
  expect(environment).not.toMatch(/key-4711|hunter2/);
  // The inspector prints this when it listens.
  await delay(300);
  running.child.kill("SIGTERM");
  const { stderr } = await running.result;
  expect(stderr).not.toContain("Debugger");
});

test("a command ends although something stays open", async () => {
  const NODE_OPTIONS = "--import data:text/javascript,setInterval(()=>{},1000)";
  const { code, stdout } = await runCli(["--version"], { cwd: await makeFolder(), env: { NODE_OPTIONS } });
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^\d+\.\d+/)]);
});
