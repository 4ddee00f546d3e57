import { styleText } from "node:util";
import pino from "pino";
import { codeOf, isOwnError, languageOwnMessage } from "../errors.ts";
import type { Log } from "../log.ts";
import { isSystemError, UsageError } from "./failure.ts";
import type { LogLevel } from "./global-options.ts";
import { printable, printableJson } from "./printable.ts";
import type { Scrubber } from "./scrub.ts";

/** Maximum depth of causes, in case of a cycle. */
const MAX_CAUSES = 8;

/**
 * Fields of an error for the log, with its causes. Omits messages of foreign errors, because drivers and parsers quote
 * values in them. Keeps only the locations of the stack trace, because its first lines repeat the message.
 */
function errorFields(error: unknown, options: { readonly withStack: boolean }): object {
  return describe(error, options.withStack, MAX_CAUSES);
}

function describe(error: unknown, withStack: boolean, causesLeft: number): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const isKnown = error instanceof UsageError || isSystemError(error) || isOwnError(error);
  return {
    type: error.name,
    code: codeOf(error),
    message: isKnown ? error.message : languageOwnMessage(error),
    ...(withStack ? { places: placesOf(error) } : {}),
    ...(error.cause !== undefined && causesLeft > 0
      ? { cause: describe(error.cause, withStack, causesLeft - 1) }
      : {}),
  };
}

function placesOf(error: Error): string[] {
  return (error.stack ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /^at .*:\d+:\d+\)?$/.test(line));
}

/** Log of this process. */
export interface Logger extends Log {
  setLevel(level: LogLevel): void;
  /** True if messages of this level are written. */
  shows(level: Exclude<LogLevel, "silent">): boolean;
}

/** Receives complete lines without line ends. */
type LineSink = (line: string) => void;

/** Field names redacted at any level, as a safeguard; the modules don't use them. */
const SECRET_NAMES = [
  "apiKey",
  "api_key",
  "userApiKey",
  "user_api_key",
  "password",
  "authorization",
  "headers",
  "body",
  "payload",
  "records",
  "emails",
  "phones",
];

/**
 * Log on standard error: one JSON document per line, or readable lines on a terminal. Writes synchronously, so that no line
 * is lost when the process ends.
 */
export function createLogger(options: {
  readonly level: LogLevel;
  readonly isForPeople: boolean;
  readonly scrubber: Scrubber;
  readonly sink: LineSink;
}): Logger {
  const logger: pino.Logger = pino(
    {
      level: options.level,
      base: { pid: process.pid },
      messageKey: "event",
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: SECRET_NAMES.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => withoutErrorObjects(fields, logger.isLevelEnabled("debug")),
      },
    },
    {
      write(line: string) {
        const width = logger.isLevelEnabled("debug") ? Number.POSITIVE_INFINITY : WIDTH;
        const text = options.isForPeople ? renderLogLine(line, width) : printableJson(line.trimEnd());
        options.sink(options.scrubber.scrub(text));
      },
    },
  );
  return {
    debug: (fields, event) => logger.debug(fields, event),
    info: (fields, event) => logger.info(fields, event),
    warn: (fields, event) => logger.warn(fields, event),
    error: (fields, event) => logger.error(fields, event),
    setLevel(level) {
      logger.level = level;
    },
    shows: (level) => logger.isLevelEnabled(level),
  };
}

function withoutErrorObjects(fields: Record<string, unknown>, withStack: boolean): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error ? errorFields(value, { withStack }) : value,
    ]),
  );
}

/** Maximum length of a line's fields on a terminal, above level debug. */
const WIDTH = 200;

/** Formats a log line for a terminal: time, event, and fields as `name=value`. */
function renderLogLine(json: string, width: number): string {
  const { level, time, event, pid: _pid, ...fields } = JSON.parse(json);
  const clock = typeof time === "string" ? time.slice(11, 19) : "";
  const details = Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
  const shown = dim(printable(details.slice(0, width)));
  const sentence = `${printable(String(event)).replaceAll("_", " ")}${details === "" ? "" : ` ${shown}`}`;
  if (level === "error" || level === "fatal") return `${dim(clock)} ${paint("red", "error")} ${sentence}`;
  if (level === "warn") return `${dim(clock)} ${paint("yellow", "warning")} ${sentence}`;
  return `${dim(clock)} ${sentence}`;
}

function dim(text: string): string {
  return paint("dim", text);
}

function paint(style: "dim" | "red" | "yellow", text: string): string {
  return styleText(style, text, { stream: process.stderr });
}
