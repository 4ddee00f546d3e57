import { expect, test } from "vitest";
import { syncFolder } from "../src/sync-folder.ts";

test("a file system that can't sync folders stops nothing, a missing folder does", async () => {
  // fsync fails here with EINVAL, as on some network disks.
  await expect(syncFolder("/proc/self")).resolves.toBeUndefined();
  await expect(syncFolder("/proc/nowhere")).rejects.toThrow("ENOENT");
});
