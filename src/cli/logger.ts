import pino from "pino";
import type { Log } from "../log.ts";
import { errorFields } from "./error-fields.ts";
import type { LogLevel } from "./global-options.ts";
import { renderLogLine } from "./log-line.ts";
import type { Scrubber } from "./scrub.ts";

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
        const text = options.isForPeople ? renderLogLine(line) : line.trimEnd();
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
