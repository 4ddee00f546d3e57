import pino from "pino";
import type { Log } from "../log.ts";
import { errorFields } from "./error-fields.ts";
import type { LogLevel } from "./global-options.ts";
import { printable, printableJson } from "./printable.ts";
import type { Scrubber } from "./scrub.ts";
import { styleText } from "node:util";

/** Log of this process. */
export interface Logger extends Log {
  setLevel(level: LogLevel): void;
  /** True if messages of this level are written. */
  shows(level: Exclude<LogLevel, "silent">): boolean;
}

/** Receives complete lines without line ends. */
export type LineSink = (line: string) => void;

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
