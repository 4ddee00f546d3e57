import { constants } from "node:fs";
import { copyFile, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

/** Copies a closed or checkpointed database and renames it over `target`, so that readers never see a partial file. */
export async function releaseFile(source: string, target: string): Promise<void> {
  const copy = `${target}.new`;
  try {
    await copyFile(source, copy, constants.COPYFILE_FICLONE);
    const file = await open(copy, "r+");
    try {
      await file.chmod(0o600);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(copy, target);
  } finally {
    await rm(copy, { force: true });
  }
  await syncFolder(dirname(target));
}

/** Renames a new database over `target`. The old one's log must not be replayed into it. */
export async function replaceFile(source: string, target: string): Promise<void> {
  await rm(`${target}.wal`, { force: true });
  await rename(source, target);
  await syncFolder(dirname(target));
}

/** Makes renames in a folder survive a power failure. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
