import { styleText } from "node:util";
import pino from "pino";
import { isSystemError, UsageError } from "./failure.ts";
import { printable, printableJson } from "./output.ts";
import type { LogLevel } from "../config/config.ts";
import { codeOf, isOwnError, languageOwnMessage } from "../errors.ts";
import type { Log } from "../log.ts";

/** Log of this process. */
export interface Logger extends Log {
  setLevel(level: LogLevel): void;
  /** True if messages of this level are written. */
  shows(level: Exclude<LogLevel, "silent">): boolean;
}

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
  /** Receives complete lines without line ends. */
  readonly sink: (line: string) => void;
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
  const shown = (value: unknown) => (value instanceof Error ? errorFields(value, withStack) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, shown(value)]));
}

/** Maximum depth of causes, in case of a cycle. */
const MAX_CAUSES = 8;

/**
 * Fields of an error for the log, with its causes. Omits messages of foreign errors, because drivers and parsers quote
 * values in them. Keeps only the locations of the stack trace, because its first lines repeat the message.
 */
function errorFields(error: unknown, withStack: boolean, causesLeft = MAX_CAUSES): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const isKnown = error instanceof UsageError || isSystemError(error) || isOwnError(error);
  return {
    type: error.name,
    code: codeOf(error),
    message: isKnown ? error.message : languageOwnMessage(error),
    ...(withStack ? { places: placesOf(error) } : {}),
    ...(error.cause !== undefined && causesLeft > 0
      ? { cause: errorFields(error.cause, withStack, causesLeft - 1) }
      : {}),
  };
}

function placesOf(error: Error): string[] {
  return (error.stack ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /^at .*:\d+:\d+\)?$/.test(line));
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
  const shown = details === "" ? "" : ` ${paint("dim", printable(details.slice(0, width)))}`;
  const sentence = `${printable(String(event)).replaceAll("_", " ")}${shown}`;
  if (level === "error" || level === "fatal")
    return `${paint("dim", clock)} ${paint("red", "error")} ${sentence}`;
  if (level === "warn") return `${paint("dim", clock)} ${paint("yellow", "warning")} ${sentence}`;
  return `${paint("dim", clock)} ${sentence}`;
}

function paint(style: "dim" | "red" | "yellow", text: string): string {
  return styleText(style, text, { stream: process.stderr });
}

/** Shorter secrets would also redact ordinary words of a log line. */
const SHORTEST_SECRET = 6;

/** The same for results: a password such as `postgres` must not change the JSON that programs parse. */
const SHORTEST_SECRET_OF_RESULTS = 16;

/** The lengths are those that an address can have; without them the time would grow with the square of a line's length. */
const LOOKS_LIKE_AN_ADDRESS = /[^\s"'<>(),;:=[\]{}\\@]{1,64}@[^\s"'<>(),;:=[\]{}\\@]{1,255}\.[a-z]{2,63}/gi;

/** Last safeguard of the log: no module should pass a secret or address to it. */
export interface Scrubber {
  /** Redacts this text from now on. */
  hide(secret: string): void;
  /** Redacts long secrets, for results of commands. */
  strike(text: string): string;
  /** Redacts secrets and everything that looks like an e-mail address. */
  scrub(line: string): string;
}

/** Creates a scrubber without secrets. */
export function createScrubber(): Scrubber {
  const secrets = new Set<string>();
  const redact = (text: string, shortest: number) => {
    let clean = text;
    for (const secret of secrets) {
      if (secret.length >= shortest) clean = clean.replaceAll(secret, "[redacted]");
    }
    return clean;
  };
  return {
    hide(secret) {
      if (secret.length < SHORTEST_SECRET) return;
      secrets.add(secret);
      // The same text inside a JSON string and inside an address.
      secrets.add(JSON.stringify(secret).slice(1, -1));
      secrets.add(encodeURIComponent(secret));
    },
    strike: (text) => redact(text, SHORTEST_SECRET_OF_RESULTS),
    scrub: (line) => redact(line, SHORTEST_SECRET).replaceAll(LOOKS_LIKE_AN_ADDRESS, "[redacted]"),
  };
}
