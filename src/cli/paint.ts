import { styleText } from "node:util";
import type { WriteStream } from "node:tty";

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
