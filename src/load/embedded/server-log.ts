import { constants, lstat, rename } from "node:fs/promises";
import { join } from "node:path";
import type { ServerFolders } from "./folders.ts";
import { openPlainFile } from "./small-file.ts";

const MAX_LOG_BYTES = 4 * 1024 * 1024;
/** Maximum bytes to read for a message. */
const READ_LOG_BYTES = 64 * 1024;

/** Log of the server, without statements and data (see settings.ts). */
export function logPath(folders: ServerFolders): string {
  return join(folders.home, "server.log");
}

/** Creates the log for the server's user, after renaming a long one to `server.log.1`; returns its length in bytes. */
export async function prepareLog(folders: ServerFolders): Promise<number> {
  const path = logPath(folders);
  const known = await lstat(path).catch(() => null);
  if (known && known.size > MAX_LOG_BYTES) await rename(path, `${path}.1`);
  await using file = await openPlainFile(path, constants.O_CREAT | constants.O_WRONLY, 0o600);
  if (folders.user) await file.chown(folders.user.uid, folders.user.gid);
  return (await file.stat()).size;
}

/** Reads the log from a byte offset, at most the last 64 kB. */
export async function readLogFrom(folders: ServerFolders, start: number): Promise<string> {
  const file = await openPlainFile(logPath(folders), constants.O_RDONLY).catch(() => null);
  if (file === null) return "";
  try {
    const { size } = await file.stat();
    const from = Math.max(start, size - READ_LOG_BYTES);
    const length = Math.max(size - from, 0);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length + 1), 0, length, from);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}
