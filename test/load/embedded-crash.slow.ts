import { spawn } from "node:child_process";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { openEmbedded } from "../../src/load/embedded/open.ts";
import { silentLog } from "../../src/log.ts";
import { givePort, postmasterPid, waitUntilGone } from "../support/embedded-files.ts";
import { answers, makeLastingFolder, startHolder } from "../support/embedded-process.ts";
import { runSql } from "../support/run-sql.ts";

const log = silentLog;

/** Database shared by all tests: each leaves it closed and with its row. */
let dataDir = "";
beforeAll(async () => {
  const lasting = await makeLastingFolder();
  dataDir = join(lasting.folder, "data-dir");
  await givePort(dataDir);
  const server = await openEmbedded({ dataDir, log });
  await runSql(server.connectionString, "CREATE TABLE kept AS SELECT 7 AS n");
  await server.close();
  return lasting.remove;
});

/** Database whose process was killed with SIGKILL, so that its server is still running. */
async function makeOrphan(): Promise<{ url: string; pid: number }> {
  const holder = await startHolder(dataDir);
  await holder.kill();
  return { url: holder.url, pid: (await postmasterPid(dataDir)) ?? 0 };
}

/** Rows of the table after opening and closing. */
async function readKept(): Promise<unknown> {
  const server = await openEmbedded({ dataDir, log });
  const rows = await runSql(server.connectionString, "SELECT n FROM kept");
  await server.close();
  return rows;
}

test("a server orphaned by kill -9 is joined, and stopped by the next process that closes it", async () => {
  const { url, pid } = await makeOrphan();
  expect(await answers(url)).toBe(true);
  const server = await openEmbedded({ dataDir, log });
  expect(server.connectionString).toBe(url);
  expect(await postmasterPid(dataDir)).toBe(pid);
  await server.close();
  expect(await answers(url)).toBe(false);
});

test("a server starts although its former process number belongs to another process", async () => {
  const { pid } = await makeOrphan();
  process.kill(pid, "SIGKILL");
  await waitUntilGone(pid);
  // A process of the server's own user: Postgres itself rejects any other as stale.
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

test("a server that is killed during use is restarted, and held until we close", async () => {
  const holder = await startHolder(dataDir);
  process.kill((await postmasterPid(dataDir)) ?? 0, "SIGKILL");
  for (let tries = 0; tries < 300 && !(await answers(holder.url)); tries += 1) await delay(100);
  expect(await runSql(holder.url, "SELECT n FROM kept")).toEqual([{ n: 7 }]);
  expect(holder.logged()).toContain("embedded database lost its sessions; restoring it");

  // Held again, so another process that opens and closes it doesn't stop it.
  await (await openEmbedded({ dataDir, log })).close();
  expect(await answers(holder.url)).toBe(true);
  expect(await holder.close()).toBe(0);
  expect(await answers(holder.url)).toBe(false);
});

test("the hold is taken again after a crash of one session ended the others", async () => {
  const holder = await startHolder(dataDir);
  const pid = await postmasterPid(dataDir);
  /** Session that holds the server by its lock; null while the server recovers. */
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
  expect(warnings).toEqual(["embedded database was stopped by another process"]);
  await server.close();
});
