import { open, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Place } from "./place.ts";
import { giveTo } from "./server-user.ts";

const MAX_LOG_BYTES = 4 * 1024 * 1024;
const KEPT_LOG_BYTES = 256 * 1024;
/** Read at most for a message. */
const READ_LOG_BYTES = 64 * 1024;

/** The server's own log. It holds no statements and no data (see settings.ts). */
export function logPath(place: Place): string {
  return join(place.home, "server.log");
}

/** Makes the log, the server's user's, before the server writes to it; returns its length in bytes. */
export async function ensureLog(place: Place): Promise<number> {
  const path = logPath(place);
  await writeFile(path, "", { mode: 0o600, flag: "a" });
  await giveTo(place.user, path);
  return (await stat(path)).size;
}

/** Keeps the end of a log that has grown too long. The server appends, so its next line follows what is kept. */
export async function boundLog(place: Place): Promise<void> {
  const path = logPath(place);
  const size = (await stat(path).catch(() => null))?.size ?? 0;
  if (size <= MAX_LOG_BYTES) return;
  const kept = await readLogFrom(place, size - KEPT_LOG_BYTES, KEPT_LOG_BYTES);
  await truncate(path);
  await writeFile(path, kept, { flag: "a" });
}

/** What the server logged after the given byte: at most the last 64 kB. */
export async function readLogFrom(place: Place, start: number, maxBytes = READ_LOG_BYTES): Promise<string> {
  const file = await open(logPath(place), "r").catch(() => null);
  if (file === null) return "";
  try {
    const { size } = await file.stat();
    const from = Math.max(start > size ? 0 : start, size - maxBytes);
    const { buffer, bytesRead } = await file.read(
      Buffer.alloc(Math.max(size - from, 1)),
      0,
      size - from,
      from,
    );
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}
