import { writeSync } from "node:fs";
import pino from "pino";
import { codeOf } from "../errors.ts";
import type { Progress } from "../jobs/services.ts";
import { askOnTerminal } from "./ask.ts";
import type { GlobalOptions } from "./global-options.ts";
import { createLogger, type Logger } from "./logger.ts";
import { createProgressBars } from "./progress-bars.ts";
import { createProgressLog } from "./progress-log.ts";
import type { Scrubber } from "./scrub.ts";

/** Output of this process: the result on standard output, everything else on standard error. */
export interface Terminal {
  readonly log: Logger;
  readonly progress: Progress;
  /** Standard error is a screen, so that people read what is written there. */
  readonly isWatched: boolean;
  readonly widthColumns: number | null;
  readonly ask: ((question: string, signal: AbortSignal) => Promise<string>) | null;
  /** Writes a result and waits until it is out. */
  print(text: string): Promise<void>;
  /** Writes for people, on standard error. */
  printError(text: string): void;
  /** True when the result could not be written, for another reason than that nobody reads it. */
  isBroken(): boolean;
  /** Leaves the screen as a shell expects it. */
  restore(): void;
}

/** Opens standard output and error, as they are: a terminal or a file. */
export function openTerminal(options: GlobalOptions, scrubber: Scrubber): Terminal {
  const isWatched = process.stderr.isTTY;
  const destination = pino.destination({ dest: 2, sync: true });
  const bars = isWatched && process.env["TERM"] !== "dumb" ? createProgressBars(process.stderr) : null;
  const log = createLogger({
    level: options.logLevel ?? (isWatched ? "warn" : "info"),
    isForPeople: isWatched,
    scrubber,
    sink: bars ? (line) => bars.print(line) : (line) => destination.write(`${line}\n`),
  });
  // Whoever reads may go away (`| head`): what is being done must be finished all the same.
  let isBroken = false;
  process.stdout.on("error", (error) => {
    isBroken ||= codeOf(error) !== "EPIPE";
  });
  process.stderr.on("error", () => {});
  destination.on("error", () => {});
  return {
    log: isWatched ? quietForPeople(log, options) : log,
    progress: bars ?? createProgressLog(log),
    isWatched,
    widthColumns: process.stdout.isTTY ? (process.stdout.columns ?? 80) : null,
    ask:
      isWatched && process.stdin.isTTY
        ? async (question, signal) => {
            bars?.pause();
            return await askOnTerminal(question, signal);
          }
        : null,
    async print(text) {
      bars?.pause();
      const { promise, resolve } = Promise.withResolvers<void>();
      process.stdout.write(`${text}\n`, () => resolve());
      await promise;
    },
    printError(text) {
      bars?.pause();
      process.stderr.write(`${text}\n`);
    },
    isBroken: () => isBroken,
    restore() {
      bars?.pause();
      // The cursor comes back even when the stream is no longer ours to flush.
      if (bars) writeSync(2, "\u001b[?25h");
    },
  };
}

/** With a progress display, logs only warnings and errors unless the command line asks for more. */
function quietForPeople(log: Logger, options: GlobalOptions): Logger {
  return {
    ...log,
    setLevel(level) {
      log.setLevel(options.logLevel === null && level === "info" ? "warn" : level);
    },
  };
}
