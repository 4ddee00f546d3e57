import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";

/** Spaces load jobs out, so that a day never has as many as BigQuery allows. */
export interface LoadPace {
  /** Resolves when the next load may begin, which is at once on all but unusual days. Failed loads count, too. */
  next(): Promise<void>;
}

/**
 * Of the 1,500 load jobs that BigQuery takes for a table in a day, failed ones included, we make no more than these. Each of ours
 * has a table of its own, so that Google would take more; they are counted together as if it were one.
 */
const MOST_LOADS = 1400;
/** So many of a day come as they like. */
const FREE_LOADS = 1000;
const DAY_MS = 86_400_000;

/** Loads of a day (UTC) by the processes that share a `data_dir`. */
interface DayOfLoads {
  /** `2026-11-21`. */
  readonly day: string;
  readonly loads: number;
  /** When the last one began, milliseconds since the epoch. */
  readonly lastAtMs: number;
}

/** How long a load has to wait: those that are left of the day are spread over what is left of it. */
export function pauseBeforeLoad(
  { loads, lastAtMs }: Pick<DayOfLoads, "loads" | "lastAtMs">,
  nowMs: number,
): number {
  const untilMidnightMs = DAY_MS - (nowMs % DAY_MS);
  if (loads < FREE_LOADS) return 0;
  if (loads >= MOST_LOADS) return untilMidnightMs;
  const apartMs = Math.ceil(untilMidnightMs / (MOST_LOADS - loads));
  return Math.max(0, lastAtMs + apartMs - nowMs);
}

/** Counts in a file of `folder`, so that the next process goes on counting. */
export function createLoadPace(folder: string, clock: Pick<Clock, "now" | "sleep">): LoadPace {
  const file = join(folder, "load-jobs.json");
  let turn: Promise<void> = Promise.resolve();

  async function read(day: string): Promise<DayOfLoads> {
    const none = { day, loads: 0, lastAtMs: 0 };
    try {
      // What `note` has written; a file that was cut off counts for none.
      const known = JSON.parse(await readFile(file, "utf8")) as DayOfLoads;
      return known.day === day ? known : none;
    } catch {
      return none;
    }
  }

  async function note(known: DayOfLoads): Promise<void> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(`${file}.${process.pid}`, JSON.stringify(known), { mode: 0o600 });
    await rename(`${file}.${process.pid}`, file);
  }

  async function take(): Promise<void> {
    for (;;) {
      const nowMs = clock.now();
      const day = new Date(nowMs).toISOString().slice(0, 10);
      const known = await read(day);
      const pauseMs = pauseBeforeLoad(known, nowMs);
      if (pauseMs === 0) return note({ day, loads: known.loads + 1, lastAtMs: nowMs });
      await clock.sleep(pauseMs);
    }
  }

  return {
    next() {
      turn = turn.then(take, take);
      return turn;
    },
  };
}
