import { lstat, readFile, readlink, stat } from "node:fs/promises";
import { hostname } from "node:os";

export interface RunnerProcess {
  readonly host: string;
  readonly pid: number;
  /** Equal for processes that share a PID namespace; null if unknown. */
  readonly machine: string | null;
  /** Distinguishes the process from a later one with the same PID; null if unknown. */
  readonly processStart: string | null;
}

/**
 * `elsewhere`: on another machine or in another container, or on a system without `/proc`, so that a free PID proves nothing.
 */
type ProcessState = "running" | "ended" | "elsewhere";

const PROC = "/proc";

export async function describeThisProcess(): Promise<RunnerProcess> {
  const [machine, stat] = await Promise.all([readMachine(), readStat("self")]);
  return { host: hostname(), pid: process.pid, machine, processStart: stat?.start ?? null };
}

/**
 * Decides for locks, files and the embedded server if a process is alive: by its PID namespace, PID and start. A PID alone is
 * shared by the first processes of all containers, and host names prove nothing: containers may share one.
 */
export async function stateOfProcess(
  other: Omit<RunnerProcess, "host">,
  ourselves: Pick<RunnerProcess, "machine">,
): Promise<ProcessState> {
  if (other.machine !== ourselves.machine) return "elsewhere";
  if (!exists(other.pid)) return other.machine === null ? "elsewhere" : "ended";
  const stat = await readStat(other.pid);
  // Not readable, or gone just now.
  if (stat === null) return "running";
  const isAnother = other.processStart !== null && stat.start !== other.processStart;
  return stat.isOver || isAnother ? "ended" : "running";
}

/** Prefix of the names of a process's files, from which {@link ownerOfFile} identifies it. */
export function ownerPrefix({ pid, processStart, machine }: RunnerProcess): string {
  return `${pid}.${processStart ?? ""}.${machine ?? ""}.`;
}

/** Process whose prefix a file name has. */
export function ownerOfFile(name: string): Omit<RunnerProcess, "host"> {
  const [pid = "", start = "", machine = ""] = name.split(".");
  return { pid: Number.parseInt(pid, 10) || 0, processStart: start || null, machine: machine || null };
}

/** Identifies the running system and the PID namespace; PIDs are comparable only if both are equal. */
async function readMachine(): Promise<string | null> {
  try {
    const boot = await readFile(`${PROC}/sys/kernel/random/boot_id`, "utf8");
    const namespace = await readlink(`${PROC}/self/ns/pid`);
    return `${boot.trim()}-${namespace.replaceAll(/\D/gu, "")}`;
  } catch {
    return null;
  }
}

/** Process start in clock ticks since boot, and a flag for exited processes. */
async function readStat(
  pid: number | "self",
): Promise<{ readonly start: string; readonly isOver: boolean } | null> {
  const line = await readFile(`${PROC}/${pid}/stat`, "utf8").catch(() => null);
  if (line === null) return null;
  // The program name in parentheses can contain anything; state (field 3) and start (field 22) follow it.
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return { start: fields[19] ?? "", isOver: ["Z", "X"].includes(fields[0] ?? "") };
}

/** True if a process has this PID; 0 and negative ones are groups. */
function exists(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch (error) {
    // EPERM: the process exists but belongs to another user.
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}

/**
 * Says, as root, why another user can change the names in a folder: links there could lead root's writes to any file of the system. Null if nobody can,
 * or if the folder doesn't exist yet.
 */
export async function otherWriterOf(folder: string): Promise<string | null> {
  if (process.getuid?.() !== 0) return null;
  for (const look of [lstat, stat]) {
    const found = await look(folder).catch(() => null);
    if (found === null) continue;
    if (found.uid !== 0) return `belongs to another user (uid ${found.uid})`;
    if (!found.isSymbolicLink() && (found.mode & 0o022) !== 0) return "can be written by other users";
  }
  return null;
}

/** SQLite's result code for a lock of another process. */
const SQLITE_BUSY = 5;

/**
 * Locks a file, created if missing, until it is released; null if it is locked already. SQLite takes an OS lock, which ends with its process,
 * so it never becomes stale. It also ends if the process closes another descriptor of the file: nothing else may open it.
 */
export async function lockFile(path: string): Promise<{ release(): void } | null> {
  // Imported here: older Node.js releases print a warning on import.
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(path);
  try {
    // Without a journal the lock also works on a full disk.
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return { release: () => database.close() };
  } catch (error) {
    database.close();
    // The lower byte is the primary code.
    const isBusy =
      error instanceof Error && "errcode" in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY;
    if (!isBusy) throw error;
    return null;
  }
}
