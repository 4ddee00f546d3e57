import { setTimeout as delay } from "node:timers/promises";

/** Clock of this process; tests pass one that they set. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Sleeps; on abort rejects with an AbortError whose cause is the signal's reason. */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  async sleep(milliseconds, signal) {
    try {
      await delay(milliseconds, undefined, signal ? { signal } : {});
    } catch (error) {
      // Node wraps the signal's reason in its own error.
      signal?.throwIfAborted();
      throw error;
    }
  },
};
