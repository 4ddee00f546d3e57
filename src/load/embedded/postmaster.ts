import { constants, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { describeThisProcess, stateOfProcess } from "../../process-state.ts";
import type { ServerFolders } from "./folders.ts";
import { runProgram } from "./run-program.ts";
import { openPlainFile, readSmallFile } from "./small-file.ts";

/** State of the server, by `postmaster.pid` and the running processes. */
type PostmasterState =
  /** No server runs, whatever process has the PID in the file. */
  | { readonly kind: "absent" }
  /** Running, starting or stopping. */
  | { readonly kind: "alive"; readonly pid: number; readonly port: number };

/** PID that no process has (maximum: 4,194,304 on Linux, 99,999 on macOS). */
const NO_PROCESS = 99_999_999;

/** Reads the state of the server of these folders. */
export async function readPostmaster(folders: ServerFolders): Promise<PostmasterState> {
  // Lines: pid, data folder, start time, port, socket folder, address, shared memory, status.
  const lines = (await readSmallFile(join(folders.data, "postmaster.pid")))?.split("\n") ?? [];
  const pid = Number(lines[0]);
  const port = Number(lines[3]);
  if (!Number.isInteger(pid) || pid <= 1) return { kind: "absent" };
  const here = await describeThisProcess();
  const state = await stateOfProcess({ ...here, pid, processStart: null }, here);
  if (state !== "running" || !(await servesData(pid, folders.data))) return { kind: "absent" };
  return { kind: "alive", pid, port };
}

/**
 * Replaces the PID of an absent server, so that Postgres doesn't mistake another process for it. The shared-memory
 * line stays: it blocks a new server while children of the killed one still write.
 */
export async function disownPid(folders: ServerFolders): Promise<void> {
  const path = join(folders.data, "postmaster.pid");
  const text = await readSmallFile(path);
  if (text === null) return;
  const [, ...rest] = text.split("\n");
  await using file = await openPlainFile(path, constants.O_WRONLY);
  await file.truncate(0);
  await file.writeFile(`${[NO_PROCESS, ...rest].join("\n")}\n`);
}

/** True if a process serves this data, by its working directory on Linux, by its program name elsewhere. */
async function servesData(pid: number, data: string): Promise<boolean> {
  if (process.platform === "linux") {
    // Fails for zombies and for processes of other users: neither is our server.
    return (await readlink(`/proc/${pid}/cwd`).catch(() => null)) === data;
  }
  if (process.platform === "win32") return true;
  const { code, output } = await runProgram("/bin/ps", ["-o", "comm=", "-p", String(pid)], { user: null });
  return code === 0 && basename(output.trim()) === "postgres";
}
