import { createTask, setLogger } from "node-cron";

/** Wakes a scheduler every minute and on `ring`. */
interface Alarm {
  /** Resolves at the next wake-up, or at once if one came since the last wait. Rejects with the signal's reason. */
  next(signal: AbortSignal): Promise<void>;
  ring(): void;
  close(): Promise<void>;
}

/**
 * Starts an alarm. node-cron only wakes the scheduler every UTC minute, so that clock changes can't confuse it:
 * `src/schedule` computes the slots.
 */
export async function startAlarm(): Promise<Alarm> {
  // Its warnings go to the console; a late minute is harmless.
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
