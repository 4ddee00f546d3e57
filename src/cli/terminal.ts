import { writeSync } from "node:fs";
import type { WriteStream } from "node:tty";
import pino from "pino";
import { codeOf } from "../errors.ts";
import type { Progress } from "../jobs/services.ts";
import { askOnTerminal } from "./ask.ts";
import type { GlobalOptions } from "./global-options.ts";
import { createLogger, type Logger } from "./logger.ts";
import { createProgressBars } from "./progress-bars.ts";
import { createProgressLog } from "./progress-log.ts";
import { paint } from "./paint.ts";
import { printable, printableJson } from "./printable.ts";
import type { Scrubber } from "./scrub.ts";
import { wrapLines } from "./wrap.ts";

/** Output of this process: the result on standard output, everything else on standard error. */
export interface Terminal {
  readonly log: Logger;
  readonly progress: Progress;
  /** True if standard error is a terminal. */
  readonly isWatched: boolean;
  readonly widthColumns: number | null;
  readonly ask: ((question: string, signal: AbortSignal) => Promise<string | null>) | null;
  /** Writes a result and waits until it is flushed. */
  print(text: string): Promise<void>;
  /** Writes a message to standard error. */
  printError(text: string): void;
  /** True if the result could not be written, except because the reader closed the pipe. */
  isBroken(): boolean;
  /** Restores the terminal for the shell. */
  restore(): void;
}

/** Opens standard output and error, which can be a terminal or a file. */
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
  // The reader may close the pipe (`| head`); the work must be finished nevertheless.
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
    widthColumns: widthOf(process.stdout),
    ask:
      isWatched && process.stdin.isTTY
        ? async (question, signal) => {
            bars?.pause();
            return await askOnTerminal(wrapLines(printable(question), widthOf(process.stderr)), signal);
          }
        : null,
    async print(text) {
      bars?.pause();
      const clean = scrubber.strike(options.json ? printableJson(text) : printable(text));
      const shown = options.json ? clean : paint(wrapLines(clean, widthOf(process.stdout)), process.stdout);
      const { promise, resolve } = Promise.withResolvers<void>();
      process.stdout.write(`${shown}\n`, () => resolve());
      await promise;
    },
    printError(text) {
      bars?.pause();
      const clean = wrapLines(scrubber.strike(printable(text)), widthOf(process.stderr));
      process.stderr.write(`${paint(clean, process.stderr)}\n`);
    },
    isBroken: () => isBroken,
    restore() {
      bars?.pause();
      // Shows the cursor even if the stream can no longer be flushed.
      if (bars) writeSync(2, "\u001b[?25h");
    },
  };
}

/** Width of a terminal; null for a file or pipe. */
function widthOf(stream: WriteStream): number | null {
  return stream.isTTY ? (stream.columns ?? 80) : null;
}

/** With progress bars, logs only warnings and errors unless the command line requests more. */
function quietForPeople(log: Logger, options: GlobalOptions): Logger {
  return {
    ...log,
    setLevel(level) {
      log.setLevel(options.logLevel === null && level === "info" ? "warn" : level);
    },
  };
}
