import type { Progress } from "../jobs/services.ts";
import type { GlobalOptions } from "./global-options.ts";
import type { Logger } from "./logger.ts";
import type { Scope } from "./scope.ts";
import type { Scrubber } from "./scrub.ts";
import type { StopSignals } from "./signals.ts";

/** Options and services of a command. */
export interface Context {
  readonly options: GlobalOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Logger;
  readonly scrubber: Scrubber;
  readonly progress: Progress;
  /** Prints a message about slow work on a terminal; otherwise the log has it. */
  readonly notify: (sentence: string) => void;
  readonly stop: StopSignals;
  /** Waits for a signal, which then stops nothing that is worth a message. */
  readonly untilStopped: () => Promise<void>;
  /** Closed after the command, even if it fails. */
  readonly scope: Scope;
  /** Width of the terminal for the result; null if the result is not written to a terminal. */
  readonly widthColumns: number | null;
  /** Prints the result before the end, for long-running commands. */
  readonly announce: (document: object, text: string) => Promise<void>;
  /** True if standard error is a terminal. */
  readonly isWatched: boolean;
  /** Asks on the terminal, null at the end of input; null if no one can answer. Rejects if `signal` aborts. */
  readonly ask: ((question: string, signal?: AbortSignal) => Promise<string | null>) | null;
}
