import { readdir, readlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { codeOf } from "../../errors.ts";
import type { Place } from "./place.ts";
import { runProgram } from "./run-program.ts";
import { readSmallFile } from "./small-file.ts";

/** What `postmaster.pid` and the processes of this machine say about the server. */
export type PostmasterState =
  /** No server runs; what a killed one left behind Postgres sees through by itself. */
  | { readonly kind: "absent" }
  /** The file names a living process that is not our server: its number was given to another one. */
  | { readonly kind: "reused_pid" }
  /** It runs, or starts or stops at this moment. */
  | { readonly kind: "alive"; readonly pid: number; readonly port: number };

/** No process has this number (Linux goes to 4,194,304, macOS to 99,999). */
const NO_PROCESS = 99_999_999;

/** Reads whether a server runs on this data. */
export async function readPostmaster(place: Place): Promise<PostmasterState> {
  // Lines: pid, data folder, start time, port, socket folder, address, shared memory, status.
  const lines = (await readSmallFile(join(place.data, "postmaster.pid")))?.split("\n") ?? [];
  const pid = Number(lines[0]);
  const port = Number(lines[3]);
  if (!Number.isInteger(pid) || pid <= 1 || !isAlive(pid)) return { kind: "absent" };
  if (!(await servesData(pid, place.data))) return { kind: "reused_pid" };
  return { kind: "alive", pid, port };
}

/**
 * Makes Postgres see that the process named in `postmaster.pid` isn't a server. The file stays, because its
 * shared-memory line keeps a new server away as long as children of the killed one still write.
 */
export async function disownPid(place: Place): Promise<void> {
  const path = join(place.data, "postmaster.pid");
  const text = await readSmallFile(path);
  if (text === null) return;
  const [, ...rest] = text.split("\n");
  await writeFile(path, `${[NO_PROCESS, ...rest].join("\n")}\n`);
}

/**
 * Ends the children of a killed server, which keep a new one away until they notice: a long statement may take
 * hours to. What they haven't committed is lost either way. Only Linux tells whose children they are.
 */
export async function endLeftovers(place: Place): Promise<void> {
  if (process.platform !== "linux" || (await readPostmaster(place)).kind === "alive") return;
  for (const name of await readdir("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid || !(await servesData(pid, place.data))) continue;
    const program = await readlink(`/proc/${pid}/exe`).catch(() => "");
    // Somebody's shell may stand in the folder too.
    if (/\/postgres( \(deleted\))?$/.test(program)) signalQuietly(pid, "SIGQUIT");
  }
}

function signalQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself meanwhile.
  }
}

/** True if the file that a process was started from is gone; known on Linux only. */
export async function runsDeletedProgram(pid: number): Promise<boolean> {
  const program = await readlink(`/proc/${pid}/exe`).catch(() => "");
  return program.endsWith(" (deleted)");
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user lives too.
    return codeOf(error) === "EPERM";
  }
}

/** A server stands in its data folder; other systems than Linux only tell us the program's name. */
async function servesData(pid: number, data: string): Promise<boolean> {
  if (process.platform === "linux") {
    // Fails for a dead process that nobody has collected, and for one of another user: neither is our server.
    return (await readlink(`/proc/${pid}/cwd`).catch(() => null)) === data;
  }
  if (process.platform === "win32") return true;
  const { code, output } = await runProgram("/bin/ps", ["-o", "comm=", "-p", String(pid)], { user: null });
  return code === 0 && basename(output.trim()) === "postgres";
}
