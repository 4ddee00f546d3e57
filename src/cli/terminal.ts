import type { MultiBar, SingleBar } from "cli-progress";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import type { WriteStream } from "node:tty";
import pino from "pino";
import {
  createLogger,
  createScrubber,
  type Logger,
  paint,
  printable,
  printableJson,
  type Scrubber,
  wrapLines,
} from "./output.ts";
import { codeOf } from "../errors.ts";
import { count, durationText } from "../figures.ts";
import type { Progress } from "../jobs/services.ts";
import type { Log, LogLevel } from "../log.ts";

/** Options of all commands, allowed before or after the command's name. */
export interface GlobalOptions {
  /** Null if not given. */
  readonly config: string | null;
  readonly json: boolean;
  /** Null if not given. */
  readonly logLevel: LogLevel | null;
}

/** Output of this process: the result on standard output, everything else on standard error. */
export interface Terminal {
  readonly log: Logger;
  readonly scrubber: Scrubber;
  readonly progress: Progress;
  /** True if standard error is a terminal. */
  readonly isWatched: boolean;
  /** Width of the terminal for the result; null if the result is not written to a terminal. */
  readonly widthColumns: number | null;
  readonly ask: ((question: string, signal: AbortSignal) => Promise<string | null>) | null;
  /** Writes a result and waits until it is flushed. */
  print(text: string): Promise<void>;
  printError(text: string): void;
  /** True if the result could not be written, except because the reader closed the pipe. */
  isBroken(): boolean;
  restore(): void;
}

export async function openTerminal(options: GlobalOptions): Promise<Terminal> {
  const scrubber = createScrubber();
  const isWatched = process.stderr.isTTY;
  const destination = pino.destination({ dest: 2, sync: true });
  const bars = isWatched && process.env["TERM"] !== "dumb" ? await openProgressBars(process.stderr) : null;
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
    scrubber,
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

/** Asks a question on the terminal; null at the end of input. */
async function askOnTerminal(question: string, signal: AbortSignal): Promise<string | null> {
  // `terminal: true` would make readline handle Ctrl-C, which must reach our signal handler.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  const ended = new Promise<null>((resolve) => {
    lines.once("close", () => resolve(null));
  });
  try {
    const answer = await Promise.race([lines.question(question, { signal }), ended]);
    return answer?.trim() ?? null;
  } finally {
    lines.close();
  }
}

/** Milliseconds between two lines of a job. */
const EVERY_MS = 10_000;

/** Progress without a terminal: a log line from time to time. */
function createProgressLog(log: Log): Progress {
  const jobs = new Map<string, { total: number; done: number; loggedAtMs: number; figures: object }>();
  return {
    start(job, total, label) {
      jobs.set(job, { total, done: 0, loggedAtMs: performance.now(), figures: {} });
      log.debug({ job, records_total: total, label }, "sending");
    },
    advance(job, by, figures) {
      const entry = jobs.get(job);
      if (!entry) return;
      entry.done += by;
      entry.figures = { ...entry.figures, ...figures };
      if (performance.now() - entry.loggedAtMs < EVERY_MS) return;
      entry.loggedAtMs = performance.now();
      log.info({ job, records_done: entry.done, records_total: entry.total, ...entry.figures }, "progress");
    },
    note(job, text) {
      log.debug({ job, text }, "note");
    },
    end(job) {
      jobs.delete(job);
    },
  };
}

/** Below this width, only the numbers are shown. */
const NARROW_COLUMNS = 72;

const BAR_COLUMNS = 24;

interface Sending {
  readonly job: string;
  readonly startedAtMs: number;
  readonly total: number;
  done: number;
  matched?: number;
  rejected?: number;
}

/**
 * Progress on a terminal: a bar per sending job, and a final line after its end. `print` writes a line above the bars;
 * `pause` hides them to allow other output, until the next start.
 */
async function openProgressBars(
  stream: NodeJS.WriteStream,
): Promise<Progress & { readonly print: (line: string) => void; readonly pause: () => void }> {
  // Loaded here, because most processes have no terminal.
  const { MultiBar } = await import("cli-progress");
  let screen: MultiBar | null = null;
  const bars = new Map<string, { readonly bar: SingleBar; readonly sending: Sending }>();

  const widthOf = () => stream.columns ?? 80;

  function pause(): void {
    if (!screen) return;
    // Flush buffered lines first.
    screen.update();
    screen.stop();
    screen = null;
  }

  function print(line: string): void {
    const clean = wrapLines(line, widthOf());
    if (screen) screen.log(`${clean}\n`);
    else stream.write(`${clean}\n`);
  }

  return {
    print,
    pause,
    start(job, total) {
      screen ??= new MultiBar({
        stream,
        fps: 5,
        hideCursor: true,
        gracefulExit: false,
        clearOnComplete: true,
        linewrap: false,
        format: (_options, _params, sending: Sending) => renderBar(sending, widthOf()),
      });
      const sending = { job, total, done: 0, startedAtMs: performance.now() };
      bars.set(job, { bar: screen.create(total, 0, sending), sending });
    },
    advance(job, by, figures) {
      const entry = bars.get(job);
      if (!entry) return;
      Object.assign(entry.sending, figures);
      entry.sending.done += by;
      entry.bar.update(entry.sending.done, entry.sending);
    },
    note(_job, text) {
      print(printable(text));
    },
    end(job) {
      const entry = bars.get(job);
      if (!entry) return;
      bars.delete(job);
      print(renderBar(entry.sending, widthOf()));
      screen?.remove(entry.bar);
      if (bars.size === 0) pause();
    },
  };
}

/** Formats one line: name, bar, percentage, counts, speed, time left. */
function renderBar(sending: Sending, widthColumns: number): string {
  const { job, done, total, startedAtMs, matched, rejected } = sending;
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const seconds = Math.max(0.001, (performance.now() - startedAtMs) / 1000);
  const speed = done / seconds;
  const counted = done > total ? count(done) : `${count(done)} of ${count(total)}`;
  const figures = `${`${Math.floor(share * 100)}%`.padStart(4)}  ${counted}`;
  if (widthColumns < NARROW_COLUMNS) return `${job} ${figures}`.slice(0, Math.max(1, widthColumns - 1));
  const full = Math.round(share * BAR_COLUMNS);
  const bar = "█".repeat(full) + "░".repeat(BAR_COLUMNS - full);
  const left =
    speed > 0 && done < total ? `${durationText((total - done) / speed)} left` : durationText(seconds);
  const parts = [
    `${job}  ${bar} ${figures}`,
    left,
    ...(matched === undefined ? [] : [`matched ${count(matched)}`]),
    ...(rejected ? [`rejected ${count(rejected)}`] : []),
    `${count(speed)}/s`,
  ];
  // Leaves out what doesn't fit, instead of cutting a number.
  while (parts.length > 1 && parts.join("  ").length >= widthColumns) parts.pop();
  return parts.join("  ").slice(0, widthColumns - 1);
}
