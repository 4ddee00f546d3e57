import { readdirSync, readFileSync } from "node:fs";

/** Clock ticks a second, as /proc counts them on every Linux in use. */
const TICKS = 100;
const PAGE_BYTES = 4096;

function readStat(pid: string) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name is in parentheses and can contain any character.
    const end = text.lastIndexOf(")");
    const fields = text.slice(end + 2).split(" ");
    const at = (index: number) => Number(fields[index] ?? 0);
    return {
      pid: Number(pid),
      parent: at(1),
      name: text.slice(text.indexOf("(") + 1, end),
      /** Own user and system time. */
      ownSeconds: (at(11) + at(12)) / TICKS,
      /** Time of reaped children. */
      reapedSeconds: (at(13) + at(14)) / TICKS,
      residentBytes: at(21) * PAGE_BYTES,
    };
  } catch {
    return null; // The process ended after it was listed.
  }
}

/** A process and its descendants, from Linux's /proc. */
export function readTree(root: number) {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => readStat(pid) ?? []);
  const tree = all.filter((p) => p.pid === root);
  for (const process of tree) tree.push(...all.filter((p) => p.parent === process.pid));
  return tree;
}

/** CPU seconds that a process tree has used so far, ended children included. */
export function cpuSeconds(root: number): number {
  return readTree(root).reduce((sum, p) => sum + p.ownSeconds + p.reapedSeconds, 0);
}

/** Largest resident memory of a process so far, bytes. */
export function peakResidentBytes(pid: number): number {
  try {
    const match = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
