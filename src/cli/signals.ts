import { InterruptedError } from "../errors.ts";

/** Signals that request a clean end, with their exit codes. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

/** Time after the first signal at which the command ends, whatever it waits for. */
const DEADLINE_MS = 25_000;

/** Time that the deadline, or a second signal, grants the embedded database to stop. */
export const LAST_CLOSE_MS = 3000;

type Stopping = keyof typeof EXIT_CODES;

/**
 * The same signal within this time counts as one: after Ctrl-C, it is sent by the terminal and by the parent process (npm).
 */
const ECHO_MS = 1000;

export interface StopSignals {
  /** Aborted by the first signal; its reason is an `InterruptedError`. */
  readonly signal: AbortSignal;
  /** First signal received; null before. */
  received(): Stopping | null;
  exitCode(): number | null;
  /** Rejects with an `InterruptedError` once the deadline after the first signal has passed. */
  readonly overdue: Promise<never>;
  close(): void;
}

/** Listens for SIGINT and SIGTERM: the first finishes calls in flight, a second one ends the process immediately. */
export function listenForSignals(on: {
  readonly first: (signal: Stopping) => void;
  /** Called before the process ends immediately, to close child processes within a few seconds. */
  readonly second: () => Promise<void>;
}): StopSignals {
  const controller = new AbortController();
  const overdue = Promise.withResolvers<never>();
  // Without a handler, a deadline that passes while nothing awaits it would end the process.
  overdue.promise.catch(() => {});
  let deadline: NodeJS.Timeout | undefined;
  let isEnding = false;
  let first: { readonly signal: Stopping; readonly atMs: number } | null = null;

  const receive = (signal: NodeJS.Signals): void => {
    if (signal !== "SIGINT" && signal !== "SIGTERM") return;
    if (first === null) {
      first = { signal, atMs: performance.now() };
      on.first(signal);
      deadline = setTimeout(() => {
        overdue.reject(new InterruptedError(`Stopped by ${signal}, before everything in flight had ended.`));
      }, DEADLINE_MS);
      controller.abort(new InterruptedError(`Stopped by ${signal}.`));
      return;
    }
    if (signal === first.signal && performance.now() - first.atMs < ECHO_MS) return;
    const exitCode = EXIT_CODES[first.signal];
    if (isEnding) process.exit(exitCode);
    isEnding = true;
    const end = (): void => process.exit(exitCode);
    setTimeout(end, LAST_CLOSE_MS);
    void on.second().then(end, end);
  };

  process.on("SIGINT", receive);
  process.on("SIGTERM", receive);
  return {
    signal: controller.signal,
    received: () => first?.signal ?? null,
    exitCode: () => (first === null ? null : EXIT_CODES[first.signal]),
    overdue: overdue.promise,
    close() {
      clearTimeout(deadline);
      process.off("SIGINT", receive);
      process.off("SIGTERM", receive);
    },
  };
}
