import { readFile, readlink } from "node:fs/promises";
import { hostname } from "node:os";
import type { RunnerProcess } from "../load/lookup.ts";

/** Process information of Linux; on other systems no process counts as dead. */
const PROC = "/proc";

/** This process, as others can recognize it. */
export async function describeThisProcess(): Promise<RunnerProcess> {
  const [machine, stat] = await Promise.all([readMachine(), readStat("self")]);
  return { host: hostname(), pid: process.pid, machine, processStart: stat?.start ?? null };
}

/**
 * Whether a process is known to have ended: it ran where we run, and its number belongs to nobody or to a later process.
 * Names of machines prove nothing: two containers may share one, and each counts its processes for itself.
 */
export async function hasEnded(other: RunnerProcess, ourselves: RunnerProcess): Promise<boolean> {
  if (other.machine === null || other.machine !== ourselves.machine) return false;
  if (!exists(other.pid)) return true;
  const stat = await readStat(other.pid);
  // Not ours to look at, or gone in this very moment: then its lock expires.
  if (stat === null) return false;
  return stat.isOver || (other.processStart !== null && stat.start !== other.processStart);
}

/** The running system and the process namespace: with both the same, process numbers mean the same. */
async function readMachine(): Promise<string | null> {
  try {
    const boot = await readFile(`${PROC}/sys/kernel/random/boot_id`, "utf8");
    return `${boot.trim()} ${await readlink(`${PROC}/self/ns/pid`)}`;
  } catch {
    return null;
  }
}

/** From the process's status line: start in ticks since the system's, and whether only its exit code is left. */
async function readStat(
  pid: number | "self",
): Promise<{ readonly start: string; readonly isOver: boolean } | null> {
  const line = await readFile(`${PROC}/${pid}/stat`, "utf8").catch(() => null);
  if (line === null) return null;
  // The program's name, in parentheses, may hold anything; after it come state (field 3) and start (field 22).
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return { start: fields[19] ?? "", isOver: ["Z", "X"].includes(fields[0] ?? "") };
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it exists, but is another user's.
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}
