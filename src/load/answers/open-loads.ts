import { microsOf } from "../../schemas/convert.ts";

/** One transaction that loads rows. */
export interface OpenLoad {
  /** Its time, which its rows get as `_synced_at`. */
  startedAt(now: string): void;
  end(): void;
}

/** The transactions of this process that load rows, to tell up to when every row is visible. */
export interface OpenLoads {
  begin(): OpenLoad;
  /** The earliest time of any other open load, or of this one: every row with an older `_synced_at` is committed after it. */
  safeUntil(own: OpenLoad): string | null;
}

/** Keeps track of this process's loads; a load without a time yet counts from when it was begun. */
export function trackLoads(): OpenLoads {
  const open = new Map<OpenLoad, string | null>();
  return {
    begin() {
      const load: OpenLoad = {
        startedAt: (now) => void open.set(load, now),
        end: () => void open.delete(load),
      };
      open.set(load, null);
      return load;
    },
    safeUntil(own) {
      const times = [...open].filter(([load]) => load !== own).map(([, now]) => now);
      // A load that has begun but not told its time yet could get any: nothing new is safe.
      if (times.includes(null)) return null;
      const known = [...times, open.get(own) ?? null].filter((now) => now !== null);
      return known.toSorted((a, b) => microsOf(a) - microsOf(b))[0] ?? null;
    },
  };
}
