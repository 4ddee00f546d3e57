import type { Measured } from "./measured-process.ts";
import { cpuSeconds } from "./process-tree.ts";
import type { Stage } from "./stage.ts";

/** Speed and resources of one measured work. */
export type Figures = ReturnType<typeof figuresOf>;

/** Rounds to some digits after the point. */
export const round = (value: number, digits = 0): number => Number(value.toFixed(digits));

/** Middle value; of an even number of values the mean of both. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? 0) + (sorted[Math.ceil(middle)] ?? 0)) / 2;
}

/** Figures of a measured client. @param serverCpu seconds that Postgres used meanwhile */
export function figuresOf(what: string, people: number, m: Measured, serverCpu: number | null) {
  return {
    what,
    people,
    seconds: round(m.seconds, 2),
    people_per_second: round(people / m.seconds),
    client_cpu_per_1000: round((m.cpuSeconds / people) * 1000, 3),
    /** Null for a server on another machine. */
    server_cpu_per_1000: serverCpu === null ? null : round((serverCpu / people) * 1000, 3),
    peak_node_mb: round(m.peakResidentBytes / 1e6),
    peak_tree_mb: round(m.peakTreeBytes / 1e6),
  };
}

/** CPU of client and Postgres, seconds per 1,000 people. */
export const cpuOf = (figures: Figures): number =>
  figures.client_cpu_per_1000 + (figures.server_cpu_per_1000 ?? 0);

/** Runs some work and returns its result with the CPU seconds of Postgres. */
export async function withServerCpu<T>(
  stage: Stage,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly cpu: number | null }> {
  const pid = stage.postmasterPid;
  const before = pid === null ? 0 : cpuSeconds(pid);
  const result = await work();
  return { result, cpu: pid === null ? null : cpuSeconds(pid) - before };
}
