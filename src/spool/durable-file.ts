import { type FileHandle, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { crashPoint } from "../crash-point.ts";
import { codeOf } from "../errors.ts";
import { temporaryName } from "./spool-places.ts";

/** Codes of file systems that can't sync folders, such as some network ones. */
const NO_FOLDER_SYNC = ["EINVAL", "ENOTSUP", "EBADF"];

/** Makes renames in a folder survive a power failure. */
export async function syncFolder(folder: string): Promise<void> {
  // Windows can't open folders; its file system keeps names in a journal.
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } catch (error) {
    if (!NO_FOLDER_SYNC.includes(codeOf(error) ?? "")) throw error;
  } finally {
    await handle.close();
  }
}

/** Syncs a folder for concurrent callers, which share the next sync. */
export function createFolderSync(folder: string): () => Promise<void> {
  let current = Promise.resolve();
  let following: Promise<void> | null = null;

  async function syncAfterCurrent(): Promise<void> {
    await current.catch(() => {});
    following = null;
    current = syncFolder(folder);
    await current;
  }

  return async () => {
    following ??= syncAfterCurrent();
    await following;
  };
}

/** Creates a folder and its parents with mode 0700; they survive a power failure. */
export async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; ; made = dirname(made)) {
    await syncFolder(dirname(made));
    if (made === first) return;
  }
}

/** Writes all bytes at the end of a file. */
export async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    // If the disk is full, a write may be partial; only the next one fails.
    const { bytesWritten } = await file.write(bytes, at);
    at += bytesWritten;
  }
}

/**
 * Writes a file atomically; once this resolves, it survives a power failure. Returns what `write` returns.
 * @param syncNames syncs the file's folder.
 */
export async function writeDurably<Result>(
  path: string,
  write: (file: FileHandle) => Promise<Result>,
  syncNames: () => Promise<void>,
): Promise<Result> {
  const temporary = temporaryName(path);
  crashPoint("before_spool_write");
  let result;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      result = await write(file);
      crashPoint("after_spool_write");
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    await syncNames();
  } catch (error) {
    // A file that may not survive must not be used.
    for (const name of [temporary, path]) await rm(name, { force: true }).catch(() => {});
    throw error;
  }
  crashPoint("after_spool_fsync");
  return result;
}
