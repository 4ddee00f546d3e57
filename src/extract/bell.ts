import type { Clock } from "../clock.ts";

/** Wakes one waiter; a ring that nobody waits for is kept. */
export interface Bell {
  ring(): void;
  /** Waits for the bell, at most so long; null for as long as it takes. */
  wait(milliseconds: number | null): Promise<void>;
}

/** A bell that hasn't rung yet. */
export function createBell(clock: Clock): Bell {
  let ringing = Promise.withResolvers<void>();
  return {
    ring: () => {
      ringing.resolve();
    },
    async wait(milliseconds) {
      const timer = new AbortController();
      const late =
        milliseconds === null ? [] : [clock.sleep(milliseconds, timer.signal).catch(() => undefined)];
      await Promise.race([ringing.promise, ...late]);
      timer.abort();
      ringing = Promise.withResolvers<void>();
    },
  };
}
