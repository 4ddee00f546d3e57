import { InterruptedError } from "../errors.ts";

/** Signals that ask for a clean end, and the exit code of each. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

/** Time that a second signal grants the embedded database to stop. */
const LAST_CLOSE_MS = 3000;

type Stopping = keyof typeof EXIT_CODES;

/**
 * The same signal again within this time is the same wish: after Ctrl-C in a terminal both the terminal and a program
 * that started us (npm) send it.
 */
const ECHO_MS = 1000;

/** The user's wish to stop. */
export interface StopSignals {
  /** Aborted by the first signal; its reason is an `InterruptedError`. */
  readonly signal: AbortSignal;
  /** The first signal that came; null while none has. */
  received(): Stopping | null;
  /** Exit code of that signal. */
  exitCode(): number | null;
  /** Stops listening. */
  close(): void;
}

/** Listens for SIGINT and SIGTERM: the first asks to finish what is in flight, a second one ends the process at once. */
export function listenForSignals(on: {
  /** After the first signal. */
  readonly first: (signal: Stopping) => void;
  /** Before the process ends at once: closes what would outlive us, for which there are only a few seconds. */
  readonly second: () => Promise<void>;
}): StopSignals {
  const controller = new AbortController();
  let isEnding = false;
  let first: { readonly signal: Stopping; readonly atMs: number } | null = null;

  const receive = (signal: NodeJS.Signals): void => {
    if (signal !== "SIGINT" && signal !== "SIGTERM") return;
    if (first === null) {
      first = { signal, atMs: performance.now() };
      on.first(signal);
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
    close() {
      process.off("SIGINT", receive);
      process.off("SIGTERM", receive);
    },
  };
}
