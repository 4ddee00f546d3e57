import { execFile } from "node:child_process";
import { mkdir, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { makeFolder, startCli } from "../cli/support/cli.ts";
import { type Setting } from "../cli/support/setting.ts";
import { givePort } from "../support/embedded-files.ts";
import { makeOpenFolder, startHolder } from "../support/embedded-process.ts";
import { setFaults, untilCalled } from "../cli/support/controls.ts";
import { finish, openTotals, prepareCase, RUN, setStage, type Stage } from "./kill-support.ts";
import { runSql } from "../support/run-sql.ts";
import { partOf } from "../support/test-size.ts";

const run = promisify(execFile);

/** A separate disk that a test can fill. */
interface SmallDisk {
  readonly path: string;
  /** Fills it completely. */
  fill(): Promise<void>;
  /** Frees space again. */
  free(): Promise<void>;
}

/** Mounts a small disk until the test ends. Fails without the privilege to mount. */
async function makeSmallDisk(megabytes: number): Promise<SmallDisk> {
  const path = join(await makeOpenFolder(), "disk");
  await mkdir(path);
  await run("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", path]).catch((error: unknown) => {
    throw new Error(
      "This test fills a disk of its own and has to mount it: run it as root, in a container with CAP_SYS_ADMIN.",
      { cause: error },
    );
  });
  onTestFinished(async () => void (await run("umount", ["-l", path])));
  const ballast = join(path, "ballast");
  return {
    path,
    async fill() {
      const { bavail, bsize } = await statfs(path);
      await writeFile(ballast, Buffer.alloc(bavail * bsize)).catch(() => {});
    },
    free: () => rm(ballast, { force: true }),
  };
}

const totals = openTotals("with the database's disk full");
let stage: Stage;
beforeAll(async () => {
  stage = await setStage();
});

/** A warehouse in an embedded database of this folder. */
async function openOn(dataDir: string): Promise<Setting> {
  const { url } = await startHolder(dataDir);
  return {
    cwd: await makeFolder(),
    env: { WAREHOUSE_URL: url, PERSON_SERVICE_API_KEY: "k" },
    url,
    query: (sql) => runSql(url, sql),
  };
}

/** A case on a small disk; the run doesn't wait long for a stopped server. */
async function prepareSmall(): Promise<{ setting: Setting; disk: SmallDisk; dataDir: string }> {
  const disk = await makeSmallDisk(200);
  const dataDir = join(disk.path, "data-dir");
  await givePort(dataDir);
  const prepared = await prepareCase(stage.sandbox, await openOn(dataDir));
  const setting = { ...prepared, env: { ...prepared.env, PERSON_ETL_RETRY_FOR_MS: "3000" } };
  return { setting, disk, dataDir };
}

/** Starts a stopped server, like every run with an embedded database. */
async function startAgain(setting: Setting, dataDir: string): Promise<void> {
  const again = await startHolder(dataDir);
  expect(again.url).toBe(setting.url);
}

/** Delays later answers longer than the disturbance, so that the run can't end before it. */
const HELD_BACK_MS = 5000;

/** Starts a run and does something after a number of calls; answers to later calls wait for it. */
async function runUntil(setting: Setting, calls: number, happening: () => Promise<void>) {
  await setFaults(stage.sandbox, `slow=${HELD_BACK_MS}#${calls + 1}-`);
  const { child, result } = startCli(RUN, setting);
  await untilCalled(stage.sandbox, calls, child);
  await happening();
  await setFaults(stage.sandbox, "");
  const { code, stdout } = await result;
  return { code, stdout };
}

describe("a database whose disk fills up in the middle of a load", () => {
  test.each(partOf([1, 3, 5], 3))(
    "after %i calls ends the run with that error; with space again the next one pays for nothing twice",
    async (calls) => {
      const { setting, disk, dataDir } = await prepareSmall();
      const { code, stdout } = await runUntil(setting, calls, () => disk.fill());
      expect(code).toBe(1);
      // The server may stop before it reports the error.
      expect(stdout).toMatch(/"code":"(disk_full|database_unreachable)"/);

      await disk.free();
      await startAgain(setting, dataDir);
      const twice = totals.sentTwice;
      expect(await finish(stage, setting, totals)).toEqual([]);
      expect(totals.sentTwice).toBe(twice);
    },
  );

  test("so far that the server can't write its log goes down; started again with space it has lost nothing", async () => {
    const { setting, disk, dataDir } = await prepareSmall();
    const { code } = await runUntil(setting, 3, async () => {
      await disk.fill();
      // Fills the log's current file, so that the next record needs a new one.
      const useUp = "SELECT pg_logical_emit_message(false, 'test', repeat('x', 17000000))";
      await setting.query(useUp).catch(() => {});
    });
    expect(code).toBe(1);
    await disk.free();
    await startAgain(setting, dataDir);
    const twice = totals.sentTwice;
    expect(await finish(stage, setting, totals)).toEqual([]);
    expect(totals.sentTwice).toBe(twice);
  });
});
