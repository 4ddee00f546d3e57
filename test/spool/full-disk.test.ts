import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { filesBelow, found, makeRoot, open } from "./spool-folder.ts";

const run = promisify(execFile);
const script = fileURLToPath(new URL("fill-disk.ts", import.meta.url));

/** Fills a spool in a separate process, optionally with a shell limit. */
async function fill(root: string, size: number, limit = ""): Promise<Record<string, unknown>> {
  const command = `${limit} exec "$0" "$@"`;
  const { stdout } = await run("sh", ["-c", command, process.execPath, script, root, String(size)]);
  // The script prints this document.
  return JSON.parse(stdout) as Record<string, unknown>;
}

const SENTENCE =
  /^The disk is full: received responses can't be written to .*0-of-1, so nothing more is sent/u;

test("a full disk is reported with the folder and what to do; earlier files stay intact", async () => {
  const root = await makeRoot();
  const disk = join(root, "..", "disk");
  await mkdir(disk, { recursive: true });
  // Only root can create a small disk, and not in every container; otherwise a limit on file sizes is used.
  const isSmall = await run("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]).then(
    () => true,
    () => false,
  );
  if (isSmall) onTestFinished(async () => void (await run("umount", [disk])));
  const spoolRoot = join(disk, "spool");
  const filled = isSmall ? await fill(spoolRoot, 300_000) : await fill(spoolRoot, 600_000, "ulimit -f 200;");
  const kept = isSmall ? 3 : 0;
  expect(filled).toEqual({ kept, calls: kept, code: "spool_full", message: expect.stringMatching(SENTENCE) });
  const next = await open(spoolRoot);
  expect(await found(next)).toEqual(isSmall ? [0, 1, 2] : []);
  for (const call of await next.leftovers()) expect((await next.read(call)).kind).toBe("whole");
  // No partial file takes up the remaining space.
  expect(await filesBelow(spoolRoot)).toHaveLength(kept);
});

test("a file size limit is reported in the same way", async () => {
  const root = await makeRoot();
  expect(await fill(root, 600_000, "ulimit -f 200;")).toMatchObject({ kept: 0, code: "spool_full" });
  expect(await filesBelow(root)).toEqual([]);
});
