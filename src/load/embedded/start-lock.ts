import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { chownLikeFolder } from "./small-file.ts";

/** Milliseconds between two tries to get the lock. */
const POLL_MS = 50;
/** SQLite's result code for "somebody else has it". */
const SQLITE_BUSY = 5;

/** Held while a process decides whether to make, start or stop the server. */
export interface StartLock {
  release(): void;
}

/**
 * Waits until no other process starts or stops the server of this folder. The lock is one of the operating system's,
 * through the SQLite that Node brings: it ends with its process, however that ends, so it can't be left stale.
 */
export async function takeStartLock(folder: string, signal?: AbortSignal): Promise<StartLock> {
  // Loaded here, because older Node releases print a warning as soon as it is loaded.
  const { DatabaseSync } = await import("node:sqlite");
  const path = join(folder, "start.lock");
  if (!(await stat(path).catch(() => null))) {
    await writeFile(path, "", { flag: "a", mode: 0o600 });
    await chownLikeFolder(path);
  }
  for (;;) {
    signal?.throwIfAborted();
    const database = new DatabaseSync(path);
    try {
      database.exec("BEGIN EXCLUSIVE");
      return { release: () => database.close() };
    } catch (error) {
      database.close();
      if (!isBusy(error)) throw error;
    }
    await delay(POLL_MS, undefined, signal ? { signal } : {});
  }
}

function isBusy(error: unknown): boolean {
  // The lower byte is the primary code, the others say more about the same cause.
  return error instanceof Error && "errcode" in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY;
}
