import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { findPackagedBinaries } from "../../src/load/embedded/binaries.ts";
import { openEmbedded, takeStartLock } from "../../src/load/embedded/open.ts";
import { silentLog } from "../../src/log.ts";
import { givePort } from "../support/embedded-files.ts";
import { answers, makeLastingFolder, makeOpenFolder, startHolder } from "../support/embedded-process.ts";

const log = silentLog;

/** Database shared by all tests except the first. */
let dataDir = "";
beforeAll(async () => {
  const { folder, remove } = await makeLastingFolder();
  dataDir = join(folder, "data-dir");
  await givePort(dataDir);
  return remove;
});

test("processes that start at the same moment make one database, and the last one stops its server", async () => {
  const dataDir = join(await makeOpenFolder(), "data-dir");
  const holders = await Promise.all([1, 2, 3].map(() => startHolder(dataDir)));
  const urls = new Set(holders.map(({ url }) => url));
  expect(urls.size).toBe(1);
  const [url = ""] = urls;
  for (const holder of holders) {
    expect(await answers(url)).toBe(true);
    expect(await holder.close()).toBe(0);
  }
  expect(await answers(url)).toBe(false);
  const serverLog = await readFile(join(dataDir, "postgres", "server.log"), "utf8");
  expect(serverLog.match(/starting PostgreSQL/g)).toHaveLength(1);
});

test("one process may open it twice; the first close leaves the other open", async () => {
  const [one, two] = await Promise.all([openEmbedded({ dataDir, log }), openEmbedded({ dataDir, log })]);
  await one.close();
  await one.close();
  expect(await answers(two.connectionString)).toBe(true);
  await two.close();
  expect(await answers(two.connectionString)).toBe(false);
});

test("Ctrl-C, which the terminal sends to all processes of the group, leaves the server to those who finish", async () => {
  const holder = await startHolder(dataDir);
  const exited = once(holder.child, "exit");
  // The holder leads its own process group; after the signal it runs one more statement and closes.
  process.kill(-(holder.child.pid ?? 0), "SIGINT");
  expect(await exited).toEqual([130, null]);
  expect(await answers(holder.url)).toBe(false);
});

test("a start lock is held while its process runs, and free once that is killed", async () => {
  const control = await makeOpenFolder();
  const module = new URL("../../src/load/embedded/open.ts", import.meta.url).href;
  const child = spawn(
    process.execPath,
    [
      "--input-type=module",
      "--eval",
      `const { takeStartLock } = await import(${JSON.stringify(module)});
       await takeStartLock(${JSON.stringify(control)});
       console.log("taken");
       setInterval(() => {}, 1000);`,
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  await once(child.stdout, "data");
  await expect(takeStartLock(control, AbortSignal.timeout(300))).rejects.toMatchObject({
    name: "TimeoutError",
  });
  child.kill("SIGKILL");
  await once(child, "exit");
  (await takeStartLock(control, AbortSignal.timeout(20_000))).release();
});

test("a server started by hand is joined and left running", async () => {
  const first = await openEmbedded({ dataDir, log });
  await first.close();
  const data = join(dataDir, "postgres", "data");
  const { uid, gid } = await stat(data);
  const pgCtl = join(findPackagedBinaries(), "bin", "pg_ctl");
  const options = { cwd: "/", ...(process.getuid?.() === 0 ? { uid, gid } : {}) };
  const serverLog = join(dataDir, "postgres", "server.log");
  await promisify(execFile)(pgCtl, ["-D", data, "-l", serverLog, "-w", "start"], options);
  const server = await openEmbedded({ dataDir, log });
  expect(server.connectionString).toBe(first.connectionString);
  await server.close();
  expect(await answers(server.connectionString)).toBe(true);
});
