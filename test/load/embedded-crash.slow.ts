import { spawn } from "node:child_process";
import { chmod, cp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { findPackagedBinaries } from "../../src/load/embedded/binaries.ts";
import { openEmbedded } from "../../src/load/embedded/open-embedded.ts";
import { silentLog } from "../../src/log.ts";
import { postmasterPid, waitUntilGone } from "../support/embedded-files.ts";
import { answers, makeLastingFolder, runSql, startHolder } from "../support/embedded-process.ts";

const log = silentLog;

/** One database for all tests: each leaves it closed and with its row. */
let folder = "";
let dataDir = "";
beforeAll(async () => {
  const lasting = await makeLastingFolder();
  folder = lasting.folder;
  dataDir = join(folder, "data-dir");
  const server = await openEmbedded({ dataDir, log });
  await runSql(server.connectionString, "CREATE TABLE kept AS SELECT 7 AS n");
  await server.close();
  return lasting.remove;
});

/** The database, whose process was killed with SIGKILL, so that its server runs on alone. */
async function makeOrphan(): Promise<{ url: string; pid: number }> {
  const holder = await startHolder(dataDir);
  await holder.kill();
  return { url: holder.url, pid: (await postmasterPid(dataDir)) ?? 0 };
}

/** What the table holds after an opening and closing. */
async function readKept(): Promise<unknown> {
  const server = await openEmbedded({ dataDir, log });
  const rows = await runSql(server.connectionString, "SELECT n FROM kept");
  await server.close();
  return rows;
}

test("a server orphaned by kill -9 is joined, and stopped by the next who closes it", async () => {
  const { url, pid } = await makeOrphan();
  expect(await answers(url)).toBe(true);
  const server = await openEmbedded({ dataDir, log });
  expect(server.connectionString).toBe(url);
  expect(await postmasterPid(dataDir)).toBe(pid);
  await server.close();
  expect(await answers(url)).toBe(false);
});

test("after both the process and its server were killed the database recovers with its data", async () => {
  const { pid } = await makeOrphan();
  process.kill(pid, "SIGKILL");
  expect(await readKept()).toEqual([{ n: 7 }]);
});

test("children of a killed server that still work don't keep the database closed", async () => {
  const holder = await startHolder(dataDir);
  // Hours of work that never waits for anything, so that it doesn't notice the end of its server.
  const endless = runSql(
    holder.url,
    "SELECT sum(n) FROM (SELECT generate_series(1, 1000000000000) AS n) AS numbers",
  ).catch(String);
  const underWay = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT sum(n)%'";
  while ((await runSql(holder.url, underWay)).length === 0) await delay(50);
  const pid = (await postmasterPid(dataDir)) ?? 0;
  await holder.kill();
  process.kill(pid, "SIGKILL");
  await waitUntilGone(pid);
  expect(await readKept()).toEqual([{ n: 7 }]);
  expect(await readFile(join(dataDir, "postgres", "server.log"), "utf8")).toContain(
    "pre-existing shared memory block",
  );
  expect(await endless).toContain("rror");
});

test("a killed server's number that now belongs to another process doesn't keep it from starting", async () => {
  const { pid } = await makeOrphan();
  process.kill(pid, "SIGKILL");
  await waitUntilGone(pid);
  // Of the server's own user: Postgres takes any other for a stranger by itself.
  const { uid } = await stat(join(dataDir, "postgres", "data"));
  const stranger = spawn("sleep", ["600"], { cwd: "/", ...(process.getuid?.() === 0 ? { uid } : {}) });
  onTestFinished(() => {
    stranger.kill("SIGKILL");
  });
  const path = join(dataDir, "postgres", "data", "postmaster.pid");
  const [, ...rest] = (await readFile(path, "utf8")).split("\n");
  await writeFile(path, [stranger.pid, ...rest].join("\n"));
  expect(await readKept()).toEqual([{ n: 7 }]);
  expect(stranger.exitCode).toBeNull();
});

test("a server that is killed under us is started anew, and still held until we close", async () => {
  const holder = await startHolder(dataDir);
  process.kill((await postmasterPid(dataDir)) ?? 0, "SIGKILL");
  for (let tries = 0; tries < 300 && !(await answers(holder.url)); tries += 1) await delay(100);
  expect(await runSql(holder.url, "SELECT n FROM kept")).toEqual([{ n: 7 }]);
  expect(holder.logged()).toContain("embedded database lost its sessions; restoring it");

  // The hold was taken anew: another process coming and going doesn't stop it.
  await (await openEmbedded({ dataDir, log })).close();
  expect(await answers(holder.url)).toBe(true);
  expect(await holder.close()).toBe(0);
  expect(await answers(holder.url)).toBe(false);
});

test("a session that crashes takes the others with it, and the hold is taken anew", async () => {
  const holder = await startHolder(dataDir);
  const pid = await postmasterPid(dataDir);
  /** The session that holds the server, with its lock; null while the server recovers. */
  const readHold = async (): Promise<unknown> => {
    const rows = await runSql(
      holder.url,
      `SELECT pid FROM pg_stat_activity JOIN pg_locks USING (pid)
       WHERE application_name = 'person-etl supervisor' AND locktype = 'advisory' AND granted`,
    ).catch(() => []);
    return rows[0]?.["pid"] ?? null;
  };
  const victim = await readHold();
  process.kill(Number(victim), "SIGKILL");
  let hold: unknown = null;
  for (let tries = 0; tries < 300 && (hold === null || hold === victim); tries += 1) {
    await delay(100);
    hold = await readHold();
  }
  expect(hold).not.toBeNull();
  expect(hold).not.toBe(victim);
  expect(await postmasterPid(dataDir)).toBe(pid);
  expect(await holder.close()).toBe(0);
});

test("a server stopped on purpose stays stopped", async () => {
  const warnings: string[] = [];
  const server = await openEmbedded({
    dataDir,
    log: { ...silentLog, warn: (_fields, event) => warnings.push(event) },
  });
  const pid = (await postmasterPid(dataDir)) ?? 0;
  process.kill(pid, "SIGINT");
  await waitUntilGone(pid);
  await delay(300);
  expect(await answers(server.connectionString)).toBe(false);
  expect(warnings).toEqual(["embedded database was stopped by somebody else"]);
  await server.close();
});

test("an orphan whose programs were replaced meanwhile is restarted with the new ones", async () => {
  const old = join(folder, "old", "native");
  await cp(join(findPackagedBinaries(), ".."), join(folder, "old"), {
    recursive: true,
    verbatimSymlinks: true,
  });
  await chmod(join(folder, "old"), 0o755);
  const holder = await startHolder(dataDir, { binaries: old });
  await holder.kill();
  const pid = await postmasterPid(dataDir);
  await rm(join(folder, "old"), { recursive: true });
  const server = await openEmbedded({ dataDir, log });
  expect(await postmasterPid(dataDir)).not.toBe(pid);
  // The language is a library of its own, loaded when first used.
  await runSql(server.connectionString, "DO $$ BEGIN PERFORM 1; END $$");
  expect(await runSql(server.connectionString, "SELECT n FROM kept")).toEqual([{ n: 7 }]);
  await server.close();
});
