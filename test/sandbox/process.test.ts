import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";

const MAIN = fileURLToPath(new URL("../../src/sandbox/main.ts", import.meta.url));
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

async function start(...args: string[]) {
  const child = spawn(process.execPath, [MAIN, "--people", "1000", ...args], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  children.push(child);
  const [line] = await once(createInterface(child.stdout), "line");
  return { child, ready: JSON.parse(String(line)) };
}

const isGone = async (pid: number): Promise<boolean> => {
  for (let tries = 0; tries < 100; tries++) {
    try {
      process.kill(pid, 0);
    } catch {
      return true;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
};

const run = async (...args: string[]) => {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "ignore", "pipe"] });
  children.push(child);
  const chunks: string[] = [];
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  const [code] = await once(child, "close");
  return { code, text: chunks.join("") };
};

describe("the sandbox as a program", () => {
  it("says on one line where it answers, and follows its flags", async () => {
    const { ready } = await start("--seed", "5", "--faults", "429:1@resolve", "--api-key", "k");
    expect(ready).toEqual({ url: `http://127.0.0.1:${ready.port}`, port: expect.any(Number) });
    const state = await (await fetch(`${ready.url}/_sandbox`)).json();
    expect(state).toMatchObject({
      seed: 5,
      people: 1000,
      faults: [{ fault: "429", rate: 1, endpoint: "resolve" }],
    });
    const headers = { "content-type": "application/json", "x-api-key": "k" };
    const answer = await fetch(`${ready.url}/v1/resolve`, {
      method: "POST",
      headers,
      body: '{"records":[]}',
    });
    expect(answer.status).toBe(429);
    await answer.text();
  });

  it.each(["SIGTERM", "SIGINT"] as const)("ends on %s, with connections open", async (signal) => {
    const { child, ready } = await start();
    await (await fetch(`${ready.url}/_sandbox`)).json();
    child.kill(signal);
    expect((await once(child, "exit"))[0]).toBe(0);
  });

  it("ends with its parent, even one that was killed, and only if told to", async () => {
    const grandparent = `
      const { spawn } = require("node:child_process");
      const child = spawn(process.execPath, [process.argv[1], "--people", "1000", "--exit-with-parent"], { stdio: ["pipe", "inherit", "inherit"] });
      process.stderr.write(child.pid + "\\n");
      setInterval(() => {}, 1000);`;
    const parent = spawn(process.execPath, ["-e", grandparent, MAIN], { stdio: ["ignore", "pipe", "pipe"] });
    children.push(parent);
    const [[line], [pid]] = await Promise.all([
      once(createInterface(parent.stdout), "line"),
      once(createInterface(parent.stderr), "line"),
    ]);
    expect(JSON.parse(String(line)).url).toMatch(/^http/);
    parent.kill("SIGKILL");
    expect(await isGone(Number(pid))).toBe(true);

    const { child, ready } = await start();
    child.stdin.end();
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect((await fetch(`${ready.url}/_sandbox`)).status).toBe(200);
  });

  it("explains wrong usage without a stack trace and exits 2", async () => {
    for (const args of [["--people", "0"], ["--port", "x"], ["--faults", "nonsense"], ["--unheard-of"]]) {
      const { code, text } = await run(...args);
      expect(code).toBe(2);
      expect(text).toContain("usage:");
      expect(text).not.toContain("    at ");
    }
  });
});
