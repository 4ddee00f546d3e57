import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Keeps garbage small while a command loads or publishes many rows: live data take about 35 MB, and may grow by 40% until a full collection. The
 * triggers let it begin when 80% of that are used; V8 would begin as soon as the rest is smaller than its space for new objects: twice as often.
 * Commands call it once everything is loaded: V8 rejects its own and Node.js's compiled code from then on, which takes a quarter of a short command.
 */
export function limitGarbage(): void {
  for (const flag of [
    "--heap-growing-percent=40",
    "--incremental-marking-soft-trigger=80",
    "--incremental-marking-hard-trigger=95",
  ])
    setFlagsFromString(flag);
}

let collect: (() => void) | null = null;

/** Frees memory that V8 doesn't count: buffers of other libraries, whose small objects keep megabytes. */
export function collectGarbage(): void {
  if (collect === null) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
  }
  collect();
}
