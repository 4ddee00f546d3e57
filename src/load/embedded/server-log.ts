import { open, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Place } from "./place.ts";
import { giveTo } from "./server-user.ts";

const MAX_LOG_BYTES = 4 * 1024 * 1024;
/** Maximum bytes to read for a message. */
const READ_LOG_BYTES = 64 * 1024;

/** Log of the server, without statements and data (see settings.ts). */
export function logPath(place: Place): string {
  return join(place.home, "server.log");
}

/** Creates the log for the server's user, after renaming a long one to `server.log.1`; returns its length in bytes. */
export async function prepareLog(place: Place): Promise<number> {
  const path = logPath(place);
  const known = await stat(path).catch(() => null);
  if (known && known.size > MAX_LOG_BYTES) await rename(path, `${path}.1`);
  await writeFile(path, "", { mode: 0o600, flag: "a" });
  await giveTo(place.user, path);
  return (await stat(path)).size;
}

/** Reads the log from a byte offset, at most the last 64 kB. */
export async function readLogFrom(place: Place, start: number): Promise<string> {
  const file = await open(logPath(place), "r").catch(() => null);
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
