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
  /** Says what takes its time to somebody who watches; elsewhere the log has it. */
  readonly tell: (sentence: string) => void;
  readonly stop: StopSignals;
  /** Closed after the command, whatever came of it. */
  readonly scope: Scope;
  /** Columns of the terminal that the result is written to; null when it goes elsewhere. */
  readonly widthColumns: number | null;
  /** Prints the result before the command ends, for commands that stay up. */
  readonly announce: (document: object, text: string) => Promise<void>;
  /** Asks on the terminal; null where nobody can answer. */
  readonly ask: ((question: string) => Promise<string>) | null;
}
