import { randomBytes } from "node:crypto";
import { type BigIntStats, constants } from "node:fs";
import { copyFile, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/**
 * Copies a closed or checkpointed database and renames it over `target`, so that readers never see a partial file. Returns the new file's identity.
 */
export async function releaseFile(source: string, target: string): Promise<string> {
  await removeLeftovers(target);
  // Others may write to the folder: a name that exists already, even as a link, is never opened.
  const copy = `${target}.${randomBytes(6).toString("hex")}`;
  let identity: string;
  try {
    await copyFile(source, copy, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    const file = await open(copy, constants.O_RDWR | constants.O_NOFOLLOW);
    try {
      await file.chmod(0o600);
      await file.sync();
      identity = identityOf(await file.stat({ bigint: true }));
    } finally {
      await file.close();
    }
    await rename(copy, target);
  } finally {
    await rm(copy, { force: true });
  }
  await syncFolder(dirname(target));
  return identity;
}

/** Removes copies of publications that were killed. */
async function removeLeftovers(target: string): Promise<void> {
  const prefix = `${basename(target)}.`;
  for (const name of await readdir(dirname(target))) {
    const isLeftover = name.startsWith(prefix) && /^[0-9a-f]{12}$/u.test(name.slice(prefix.length));
    if (isLeftover) await rm(join(dirname(target), name), { force: true });
  }
}

/** Identity of a file, which a change or an older copy in its place doesn't have; null if there is none. */
export async function readIdentity(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null);
  return found && identityOf(found);
}

function identityOf({ size, mtimeNs }: BigIntStats): string {
  return `${size}.${mtimeNs}`;
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
