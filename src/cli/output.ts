import type { WriteStream } from "node:tty";
import { styleText } from "node:util";
import pino from "pino";
import { isSystemError, UsageError } from "./failure.ts";
import { codeOf, isOwnError, languageOwnMessage } from "../errors.ts";
import { count } from "../figures.ts";
import type { Log, LogLevel } from "../log.ts";

/** Cell of a table: a number gets thousands separators, null is blank. */
type Cell = string | number | null;

const MAX_CELL = 1000;

/** A number with its unit, currency or another amount after it; columns of figures are aligned right. */
const FIGURE = /^(?:–|[^\s\d]?[\d.,]+(?:%| s| \(.+\))?)$/u;

/** Text of a result; laid out for a terminal's width in columns, null without a terminal. */
export type Text = string | ((widthColumns: number | null) => string);

export function layOut(text: Text, widthColumns: number | null): string {
  return typeof text === "string" ? text : text(widthColumns);
}

/** Joins texts without those that are empty. */
export function joinFilled(texts: readonly string[], by: string): string {
  return texts.filter((text) => text !== "").join(by);
}

/** Joins paragraphs by blank lines and the lines of each, without those that are empty. */
export function paragraphs(...parts: readonly (Text | readonly Text[])[]): Text {
  return (width) => {
    const lines = parts.map((part) => [part].flat().map((text: Text) => layOut(text, width)));
    return joinFilled(
      lines.map((own) => joinFilled(own, "\n")),
      "\n\n",
    );
  };
}

/**
 * Table, empty without rows; columns without any filled cell are left out. If it is wider than the terminal, each row is a
 * block of lines instead.
 * @param columns cell of a row, by heading
 */
export function table<Row>(
  rows: readonly Row[],
  columns: Readonly<Record<string, (row: Row) => Cell>>,
): Text {
  return rows.length === 0 ? "" : (widthColumns) => layOutTable(rows, columns, widthColumns);
}

function layOutTable<Row>(
  rows: readonly Row[],
  columns: Readonly<Record<string, (row: Row) => Cell>>,
  widthColumns: number | null,
): string {
  const filled = Object.entries(columns)
    .map(([heading, cell]) => ({ heading, cells: rows.map((row) => cellText(cell(row))) }))
    .filter(({ cells }) => cells.some((cell) => cell !== ""));
  const padded = filled.map(({ heading, cells }) => {
    const isRight =
      cells.some((cell) => cell !== "") && cells.every((cell) => cell === "" || FIGURE.test(cell));
    const width = Math.max(...[heading, ...cells].map(widthOf));
    return [heading, ...cells].map((text) => {
      const blanks = " ".repeat(width - widthOf(text));
      return isRight ? blanks + text : text + blanks;
    });
  });
  const lines = [-1, ...rows.keys()].map((at) =>
    padded
      .map((texts) => texts[at + 1])
      .join("  ")
      .trimEnd(),
  );
  const width = Math.max(...lines.map(widthOf));
  if (widthColumns === null || width <= widthColumns)
    return lines.toSpliced(1, 0, "─".repeat(width)).join("\n");
  const [titles, ...others] = filled;
  return rows
    .flatMap((_, at) => {
      const parts = others.map(({ heading, cells }) => (cells[at] ? `${heading.trim()} ${cells[at]}` : ""));
      return [titles?.cells[at] ?? "", ...fill(joinFilled(parts, ", "), "  ", "  ", widthColumns)];
    })
    .join("\n");
}

function cellText(cell: Cell): string {
  if (typeof cell === "number") return count(cell);
  const line = (cell ?? "").replaceAll(/\s*\n\s*/gu, " ");
  return line.length <= MAX_CELL ? line : `${line.slice(0, MAX_CELL).toWellFormed()}…`;
}

/** Marks without a width of their own, and characters two columns wide. */
const NARROW = /[\p{Mn}\p{Me}\p{Cf}]/gu;

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/gu;

/** Columns that a text takes on a terminal. */
function widthOf(text: string): number {
  return Array.from(text.replaceAll(NARROW, "").replaceAll(WIDE, "  ")).length;
}

/** Control characters except tab and line end, and characters that change the direction of text. */
const UNPRINTABLE = new RegExp(
  String.raw`[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]`,
  "gu",
);

/** Replaces terminal control characters from tables, the service or files by U+FFFD. Our own colors come after it. */
export function printable(text: string): string {
  return text.replaceAll(UNPRINTABLE, "\uFFFD");
}

/** The same for JSON, which stays equal: escapes the characters. */
export function printableJson(text: string): string {
  return text.replaceAll(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Mark at the start of a line and the label of a finding after it, or a label with a colon. */
const LEAD = /^ *(?:[✓✗!•→] +(?:\S+(?: \S+)* {2,})?|[a-z]+: )?/u;

/**
 * Breaks sentences between words at the width of a terminal. Continued lines are indented below the text. Indented
 * lines, such as commands to copy, and table rows stay whole.
 */
export function wrapLines(text: string, widthColumns: number | null): string {
  if (widthColumns === null) return text;
  return text
    .split("\n")
    .flatMap((line) => wrapLine(line, widthColumns))
    .join("\n");
}

function wrapLine(line: string, widthColumns: number): readonly string[] {
  const lead = LEAD.exec(line)?.[0] ?? "";
  if (line.length <= widthColumns || (lead.length > 0 && lead.trim() === "")) return [line];
  const indent = " ".repeat(Math.min(lead.length, Math.floor(widthColumns / 2)));
  return fill(line.slice(lead.length), lead, indent, widthColumns);
}

/** Breaks a text between words; the first line begins with `lead`, the others with `indent`. */
function fill(text: string, lead: string, indent: string, widthColumns: number): readonly string[] {
  const lines: string[] = [];
  let [start, current] = [lead, lead];
  for (const word of text.split(" ")) {
    if (current !== start && current.length + 1 + word.length > widthColumns) {
      lines.push(current);
      [start, current] = [indent, indent];
    }
    current += current === start ? word : ` ${word}`;
  }
  return [...lines, current];
}

const MARKS = { "✓": "green", "✗": "red", "!": "yellow", "•": "cyan" } as const;

const MARK = /^( *)([✓✗!•])(?= )/u;

const RULE = /^─+$/u;

/**
 * Colors the marks of lines and the headers of tables, if the stream is a terminal that shows colors and NO_COLOR
 * isn't set.
 */
export function paint(text: string, stream: WriteStream): string {
  const lines = text.split("\n");
  const isHeader = (at: number) => lines[at]?.trim() !== "" && RULE.test(lines[at + 1] ?? "");
  return lines
    .map((line, at) => {
      if (isHeader(at)) return styleText("bold", line, { stream });
      if (at > 0 && isHeader(at - 1)) return styleText("dim", line, { stream });
      return line.replace(MARK, (_all, indent: string, mark: keyof typeof MARKS) => {
        return `${indent}${styleText(MARKS[mark], mark, { stream })}`;
      });
    })
    .join("\n");
}

export interface Logger extends Log {
  setLevel(level: LogLevel): void;
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

/** Formats a log line for a terminal: time, and its `text`, or event and fields as `name=value`. */
function renderLogLine(json: string, width: number): string {
  const { level, time, event, pid: _pid, text, ...fields } = JSON.parse(json);
  const clock = typeof time === "string" ? time.slice(11, 19) : "";
  const details = Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
  const shown = details === "" ? "" : ` ${styled("dim", printable(details.slice(0, width)))}`;
  const sentence =
    typeof text === "string" ? printable(text) : `${printable(String(event)).replaceAll("_", " ")}${shown}`;
  if (level === "error" || level === "fatal")
    return `${styled("dim", clock)} ${styled("red", "error")} ${sentence}`;
  if (level === "warn") return `${styled("dim", clock)} ${styled("yellow", "warning")} ${sentence}`;
  return `${styled("dim", clock)} ${sentence}`;
}

function styled(style: "dim" | "red" | "yellow", text: string): string {
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
  hide(secret: string): void;
  /** Redacts long secrets, for results of commands. */
  strike(text: string): string;
  /** Redacts secrets and everything that looks like an e-mail address. */
  scrub(line: string): string;
}

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
