import { readFile, readlink } from "node:fs/promises";
import { hostname } from "node:os";
import type { RunnerProcess } from "../load/runs/job-lock.ts";

/** Process information on Linux; on other systems no process is considered dead. */
const PROC = "/proc";

/** Identifies this process for others. */
export async function describeThisProcess(): Promise<RunnerProcess> {
  const [machine, stat] = await Promise.all([readMachine(), readStat("self")]);
  return { host: hostname(), pid: process.pid, machine, processStart: stat?.start ?? null };
}

/**
 * True if a process has ended for certain: it ran in our PID namespace, and its PID is free or belongs to a later process.
 * Host names prove nothing: containers with separate PID namespaces may share one.
 */
export async function hasEnded(other: RunnerProcess, ourselves: RunnerProcess): Promise<boolean> {
  if (other.machine === null || other.machine !== ourselves.machine) return false;
  if (!exists(other.pid)) return true;
  const stat = await readStat(other.pid);
  // Not readable, or gone just now: its lock will expire.
  if (stat === null) return false;
  return stat.isOver || (other.processStart !== null && stat.start !== other.processStart);
}

/** Identifies the running system and the PID namespace; PIDs are comparable only if both are equal. */
async function readMachine(): Promise<string | null> {
  try {
    const boot = await readFile(`${PROC}/sys/kernel/random/boot_id`, "utf8");
    return `${boot.trim()} ${await readlink(`${PROC}/self/ns/pid`)}`;
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

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists but belongs to another user.
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}
