import { execFile } from "node:child_process";
import { mkdir, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { makeOpenFolder } from "../support/embedded-process.ts";

const run = promisify(execFile);

/** A separate disk that a test can fill. */
export interface SmallDisk {
  readonly path: string;
  /** Fills it completely. */
  fill(): Promise<void>;
  /** Frees space again. */
  free(): Promise<void>;
}

/** Mounts a small disk until the test ends. Fails without the privilege to mount. */
export async function makeSmallDisk(megabytes: number): Promise<SmallDisk> {
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
