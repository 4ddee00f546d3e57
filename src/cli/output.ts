import type { WriteStream } from "node:tty";
import { styleText } from "node:util";

/** Column of a table. */
export interface Column {
  readonly name: string;
  readonly isNumber?: boolean;
  /** Left out if all its cells are empty or 0. */
  readonly isSparse?: boolean;
  /** Left out if the terminal is too narrow, lowest number first; never without a number. */
  readonly drop?: number;
}

/** Characters of a cell that are shown. */
const MAX_CELL = 1000;

/**
 * Formats a table without its empty sparse columns. On a narrow terminal it leaves out columns; if it still doesn't fit,
 * it formats one block of lines per row.
 */
export function renderTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  widthColumns: number | null,
): string {
  const cells = rows.map((row) => row.map(cut));
  let shown = columns
    .map((column, i) => ({ ...column, cells: cells.map((row) => row[i] ?? "") }))
    .filter((column) => !column.isSparse || column.cells.some((cell) => cell !== "" && cell !== "0"));
  for (;;) {
    const lines = draw(shown, rows.length);
    if (widthColumns === null || lines.every((line) => widthOf(line) <= widthColumns))
      return lines.join("\n");
    const lowest = Math.min(...shown.map(({ drop = Number.POSITIVE_INFINITY }) => drop));
    if (lowest === Number.POSITIVE_INFINITY) return renderBlocks(columns, cells);
    shown = shown.filter(({ drop }) => drop !== lowest);
  }
}

function cut(cell: string): string {
  const line = cell.replaceAll(/\s*\n\s*/gu, " ");
  return line.length <= MAX_CELL ? line : `${line.slice(0, MAX_CELL).toWellFormed()}…`;
}

/** Lines of a table: its header, a rule, and the rows. */
function draw(columns: readonly (Column & { readonly cells: readonly string[] })[], rows: number): string[] {
  const padded = columns.map(({ name, isNumber, cells }) => {
    const texts = [name, ...cells];
    const width = Math.max(...texts.map(widthOf));
    return texts.map((text) => {
      const blanks = " ".repeat(width - widthOf(text));
      return isNumber ? blanks + text : text + blanks;
    });
  });
  const lines = Array.from({ length: rows + 1 }, (_, at) =>
    padded
      .map((texts) => texts[at])
      .join("  ")
      .trimEnd(),
  );
  return lines.toSpliced(1, 0, "─".repeat(Math.max(...lines.map(widthOf))));
}

/** Marks without a width of their own, and characters two columns wide. */
const NARROW = /[\p{Mn}\p{Me}\p{Cf}]/gu;

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/gu;

/** Columns that a text takes on a terminal. */
function widthOf(text: string): number {
  return Array.from(text.replaceAll(NARROW, "").replaceAll(WIDE, "  ")).length;
}

function renderBlocks(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const [first, ...rest] = columns;
  const nameWidth = Math.max(0, ...rest.map((column) => column.name.length));
  return rows
    .map(([title = "", ...cells]) =>
      [
        `${first?.name ?? ""}: ${title}`,
        ...rest.map((column, i) => `  ${column.name.padEnd(nameWidth)}  ${cells[i] ?? ""}`),
      ].join("\n"),
    )
    .join("\n");
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

function wrapLine(line: string, widthColumns: number): string[] {
  const lead = LEAD.exec(line)?.[0] ?? "";
  if (line.length <= widthColumns || (lead.length > 0 && lead.trim() === "")) return [line];
  const indent = " ".repeat(Math.min(lead.length, Math.floor(widthColumns / 2)));
  const lines: string[] = [];
  let current = lead;
  for (const word of line.slice(lead.length).split(" ")) {
    const isFirst = current.trimEnd() === "" || current === lead;
    if (!isFirst && current.length + 1 + word.length > widthColumns) {
      lines.push(current);
      current = indent + word;
    } else {
      current += isFirst ? word : ` ${word}`;
    }
  }
  return [...lines, current];
}

/** Styles of the first character of a line. */
const MARKS = { "✓": "green", "✗": "red", "!": "yellow", "•": "cyan" } as const;

const MARK = /^( *)([✓✗!•])(?= )/u;

/** Rule below the header of a table. */
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
