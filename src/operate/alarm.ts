import { createTask, setLogger } from "node-cron";

/** What wakes a scheduler: every minute, and when somebody rings. */
export interface Alarm {
  /** Resolves at the next ring; one that came since the last wait counts. Rejects with the signal's reason. */
  next(signal: AbortSignal): Promise<void>;
  ring(): void;
  close(): Promise<void>;
}

/**
 * Starts an alarm. node-cron does no more than wake us, by UTC minutes, so that no change of a clock can confuse it: which
 * slots there are is our own calculation.
 */
export async function startAlarm(): Promise<Alarm> {
  // It would write to the console; a minute that comes late is no event.
  setLogger({ info() {}, warn() {}, error() {}, debug() {} });
  let hasRung = false;
  let rung = Promise.withResolvers<void>();
  const ring = () => {
    hasRung = true;
    rung.resolve();
  };
  const task = createTask("* * * * *", ring, { timezone: "UTC", suppressMissedWarning: true });
  await task.start();
  return {
    async next(signal) {
      signal.throwIfAborted();
      const stopped = Promise.withResolvers<never>();
      const stop = () => stopped.reject(signal.reason);
      signal.addEventListener("abort", stop, { once: true });
      try {
        if (!hasRung) await Promise.race([rung.promise, stopped.promise]);
      } finally {
        signal.removeEventListener("abort", stop);
        hasRung = false;
        rung = Promise.withResolvers();
      }
    },
    ring,
    async close() {
      await task.destroy();
    },
  };
}
