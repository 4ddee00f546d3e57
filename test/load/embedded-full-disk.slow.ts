import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { openEmbedded } from "../../src/load/embedded/open.ts";
import { silentLog } from "../../src/log.ts";
import { postmasterPid } from "../support/embedded-files.ts";
import { makeOpenFolder } from "../support/embedded-process.ts";
import { runSql } from "../support/run-sql.ts";

const log = silentLog;
const run = promisify(execFile);

test("a full disk is reported as such, leaves no half of a database, and loses nothing", async () => {
  const { disk, isSmall } = await mountDisk("20m");
  const dataDir = join(disk, "data-dir");
  const expectFull = async () => {
    const outcome = await tryToOpen(dataDir);
    expect(isSmall ? outcome : { code: "disk_full" }).toMatchObject({ code: "disk_full" });
    expect(await postmasterPid(dataDir)).toBeNull();
  };
  await expectFull();
  await (isSmall ? run("mount", ["-o", "remount,size=120m", disk]) : Promise.resolve());
  const first = await openEmbedded({ dataDir, log });
  await runSql(first.connectionString, "CREATE TABLE kept AS SELECT 7 AS n");
  await first.close();

  await fill(join(disk, "ballast"), isSmall);
  await expectFull();
  await rm(join(disk, "ballast"), { force: true });
  const second = await openEmbedded({ dataDir, log });
  expect(await runSql(second.connectionString, "SELECT n FROM kept")).toEqual([{ n: 7 }]);
  await second.close();
});

/** Mounts a disk of this size; removed after the test. */
async function mountDisk(size: string): Promise<{ readonly disk: string; readonly isSmall: boolean }> {
  const disk = join(await makeOpenFolder(), "disk");
  await mkdir(disk);
  // Only root can create a small disk, and not in every container; embedded-failure.test.ts covers other systems.
  const isSmall = await run("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", disk]).then(
    () => true,
    () => false,
  );
  onTestFinished(async () => {
    if (isSmall) await run("umount", ["-l", disk]);
  });
  return { disk, isSmall };
}

/** Opens and closes the database; returns the error if that fails. */
async function tryToOpen(dataDir: string): Promise<unknown> {
  try {
    await (await openEmbedded({ dataDir, log })).close();
    return "opened";
  } catch (error) {
    return error;
  }
}

/** Writes until the disk is full. */
async function fill(path: string, isSmall: boolean): Promise<void> {
  if (!isSmall) return;
  await writeFile(path, Buffer.alloc(200 * 1024 * 1024)).catch(() => {});
}
