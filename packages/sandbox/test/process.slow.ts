import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { type Body, call } from "./support.ts";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));
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

/** Answer of the sandbox, with the members that tests read. */
interface Reply extends Body {
  readonly segment_id: string;
  readonly search_id: string;
  readonly members: readonly { readonly service_pid: string }[];
  readonly segments: readonly { readonly name: string }[];
}

const ask = async (url: string, path: string, body?: object): Promise<Reply> =>
  JSON.parse((await call({ url }, path, body)).text);

const isGone = async (pid: number): Promise<boolean> => {
  for (let tries = 0; tries < 600; tries++) {
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
  it("keeps segments, usage and searches in its state file through an exit and a kill", async () => {
    const folder = await mkdtemp(join(tmpdir(), "person-etl-sandbox-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const flags = ["--state", join(folder, "state", "sandbox.json")];
    const first = await start(...flags);
    const made = await ask(first.ready.url, "/_sandbox/segments", { name: "VIP", members: 300, batch: 100 });
    const { members } = await ask(first.ready.url, `/_sandbox/segments/${made.segment_id}/members`);
    await ask(first.ready.url, "/_sandbox/members", {
      segment_id: made.segment_id,
      remove: [members[0]?.service_pid],
    });
    await ask(first.ready.url, "/v1/resolve", { records: [] });
    const query = { query: "women in California" };
    const search = await ask(first.ready.url, "/person-search/v0/search", { ...query, size: 3 });
    const job = await ask(first.ready.url, "/person-search/v0/search-jobs", query);
    const before = await ask(first.ready.url, `/_sandbox/segments/${made.segment_id}/members`);
    const used = await ask(first.ready.url, "/usage");
    first.child.kill("SIGTERM");
    await once(first.child, "exit");

    const second = await start(...flags);
    expect(await ask(second.ready.url, `/_sandbox/segments/${made.segment_id}/members`)).toEqual(before);
    const usedLater = await ask(second.ready.url, "/usage");
    expect(usedLater.results).toEqual(used.results);
    expect(await ask(second.ready.url, `/person-search/v0/search/${search.search_id}`)).toEqual(search);
    expect(await ask(second.ready.url, `/person-search/v0/search-jobs/${job.segment_id}`)).toMatchObject({
      segment_id: job.segment_id,
    });
    expect((await stat(flags[1] ?? "")).mode & 0o777).toBe(0o600);
    await ask(second.ready.url, "/v2/segments/create", { name: "later" });
    // It writes with a short delay.
    while (!(await readFile(flags[1] ?? "", "utf8")).includes('"later"')) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    second.child.kill("SIGKILL");
    await once(second.child, "exit");

    const third = await start(...flags);
    const { segments } = await ask(third.ready.url, "/_sandbox/segments");
    expect(segments.map((segment) => segment.name)).toEqual(["VIP", "later"]);
    // Another population has other people.
    const other = await start(...flags, "--seed", "9");
    expect(await ask(other.ready.url, "/_sandbox/segments")).toEqual({ segments: [] });
  });

  it("exits on SIGTERM although clients keep connections open, answered or not", async () => {
    const { child, ready } = await start("--faults", "slow=60000@resolve");
    const head = "Host: sandbox\r\nx-api-key: k\r\ncontent-type: application/json\r\n";
    const open = () => connect(ready.port, "127.0.0.1").on("error", () => {});
    const [idle, waiting] = [open(), open()];
    idle.write(`GET /_sandbox HTTP/1.1\r\n${head}\r\n`);
    await once(idle, "data");
    waiting.write(`POST /v1/resolve HTTP/1.1\r\n${head}content-length: 14\r\n\r\n{"records":[]}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
    child.kill("SIGTERM");
    expect(await once(child, "exit", { signal: AbortSignal.timeout(20_000) })).toEqual([0, null]);
  });

  it("prints its address on one line, and follows its flags", async () => {
    const { ready } = await start("--seed", "5", "--faults", "429:1@resolve", "--api-key", "k");
    expect(ready).toEqual({ url: `http://127.0.0.1:${ready.port}`, port: expect.any(Number) });
    expect(await ask(ready.url, "/_sandbox")).toMatchObject({
      seed: 5,
      people: 1000,
      faults: [{ fault: "429", rate: 1, endpoint: "resolve" }],
    });
    const headers = { "x-api-key": "k" };
    expect((await call(ready, "/v1/resolve", { records: [] }, { headers })).status).toBe(429);
  });

  it("ends with its parent, even a killed one, only with --exit-with-parent", async () => {
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
    for (const args of [["--faults", "nonsense"], ["--unheard-of"]]) {
      const { code, text } = await run(...args);
      expect(code).toBe(2);
      expect(text).toContain("usage:");
      expect(text).not.toContain("    at ");
    }
  });
});
