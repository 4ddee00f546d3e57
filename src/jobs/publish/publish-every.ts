import type { Clock } from "../../clock.ts";
import type { Publisher } from "./publisher.ts";

/** Publishes to one destination again and again until it is stopped. Failures are logged by the publisher; the next time repeats. */
export function publishEvery(
  publisher: Publisher,
  name: string,
  everyMs: number,
  clock: Clock,
): { stop(): Promise<void> } {
  const stopped = new AbortController();
  const loop = async () => {
    while (!stopped.signal.aborted) {
      try {
        await clock.sleep(everyMs, stopped.signal);
      } catch {
        return;
      }
      await publisher.publish([name]);
    }
  };
  const running = loop();
  return {
    async stop() {
      stopped.abort();
      await running;
    },
  };
}
