import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../errors.ts";
import { chownLikeFolder } from "./small-file.ts";
import { describeFailure } from "./startup-failure.ts";

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
  const tried = `taking the lock ${path} of the embedded database`;
  try {
    await writeFile(path, "", { flag: "a", mode: 0o600 });
    await chownLikeFolder(path);
  } catch (error) {
    throw describeFailure(tried, messageOf(error), error);
  }
  for (;;) {
    signal?.throwIfAborted();
    const database = new DatabaseSync(path);
    try {
      // Nothing is stored, so no journal has to be: the lock works on a full disk too.
      database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
      return { release: () => database.close() };
    } catch (error) {
      database.close();
      if (!isBusy(error)) throw describeFailure(tried, messageOf(error), error);
    }
    // Aborted: the next round throws the signal's own reason.
    await delay(POLL_MS, undefined, signal ? { signal } : {}).catch(() => {});
  }
}

function isBusy(error: unknown): boolean {
  // The lower byte is the primary code, the others say more about the same cause.
  return error instanceof Error && "errcode" in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY;
}
