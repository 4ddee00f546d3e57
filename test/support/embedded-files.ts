import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { unusedPort } from "./unused-port.ts";

/** Data folder of a data_dir's server. */
export async function homeOf(dataDir: string): Promise<string> {
  const control = join(dataDir, "postgres");
  return (await readFile(join(control, "location"), "utf8").catch(() => control)).trim();
}

/** Gives a new data_dir a port that no other process takes while its server is stopped. */
export async function givePort(dataDir: string): Promise<void> {
  const control = join(dataDir, "postgres");
  await mkdir(control, { recursive: true, mode: 0o711 });
  await writeFile(join(control, "port"), String(await unusedPort()), { flag: "wx" });
}

/** The first line of `postmaster.pid`, or null if there is no such file. */
export async function postmasterPid(dataDir: string): Promise<number | null> {
  const path = join(await homeOf(dataDir), "data", "postmaster.pid");
  const text = await readFile(path, "utf8").catch(() => null);
  return text === null ? null : Number.parseInt(text, 10);
}

/** Ends the server of a data_dir, wherever it keeps its data, and removes both. */
export async function removeDatabase(dataDir: string): Promise<void> {
  const home = await homeOf(dataDir);
  const pid = await postmasterPid(dataDir);
  if (pid !== null && isAlive(pid)) {
    process.kill(pid, "SIGQUIT");
    await waitUntilGone(pid);
  }
  await rm(home, { recursive: true, force: true });
  await rm(dataDir, { recursive: true, force: true });
}

/** True until a process has exited and was reaped. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits for the end of a process that isn't our child. */
export async function waitUntilGone(pid: number): Promise<void> {
  for (let waitedMs = 0; isAlive(pid) && waitedMs < 30_000; waitedMs += 20) await delay(20);
  if (isAlive(pid)) throw new Error(`process ${pid} is still running`);
}
