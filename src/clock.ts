import { setTimeout as delay } from "node:timers/promises";

/** The time as this process sees it; tests pass one that they move by hand. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Waits; rejects with an AbortError, whose cause is the signal's reason, as soon as it is aborted. */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  async sleep(milliseconds, signal) {
    try {
      await delay(milliseconds, undefined, signal ? { signal } : {});
    } catch (error) {
      // Node wraps the signal's reason in an error of its own.
      signal?.throwIfAborted();
      throw error;
    }
  },
};
