import { constants } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../errors.ts";
import { openPlainFile } from "./small-file.ts";
import { describeFailure } from "./startup-failure.ts";

/** Milliseconds between two attempts. */
const POLL_MS = 50;
/** SQLite's result code for a lock of another process. */
const SQLITE_BUSY = 5;

/** Held while a process creates, starts or stops the server. */
export interface StartLock {
  release(): void;
}

/**
 * Waits until no other process starts or stops the server of this folder. SQLite takes an OS lock, which ends
 * with its process, so it never becomes stale.
 */
export async function takeStartLock(folder: string, signal?: AbortSignal): Promise<StartLock> {
  // Imported here: older Node.js releases print a warning on import.
  const { DatabaseSync } = await import("node:sqlite");
  const path = join(folder, "start.lock");
  const tried = `taking the lock ${path} of the embedded database`;
  try {
    await (await openPlainFile(path, constants.O_CREAT | constants.O_RDWR, 0o600)).close();
  } catch (error) {
    throw describeFailure(tried, messageOf(error), error);
  }
  for (;;) {
    signal?.throwIfAborted();
    const database = new DatabaseSync(path);
    try {
      // Without a journal the lock also works on a full disk.
      database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
      return { release: () => database.close() };
    } catch (error) {
      database.close();
      if (!isBusy(error)) throw describeFailure(tried, messageOf(error), error);
    }
    // On abort, the next iteration throws the signal's reason.
    await delay(POLL_MS, undefined, signal ? { signal } : {}).catch(() => {});
  }
}

function isBusy(error: unknown): boolean {
  // The lower byte is the primary code.
  return error instanceof Error && "errcode" in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY;
}
