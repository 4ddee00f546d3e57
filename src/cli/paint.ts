import { styleText } from "node:util";
import type { WriteStream } from "node:tty";

/** Styles of the first character of a line. */
const MARKS = { "✓": "green", "✗": "red", "!": "yellow", "•": "cyan" } as const;

const MARK = /^( *)([✓✗!•])(?= )/u;
/** Header of a table with the rule below it. */
const HEADER = /^(.*\S.*)\n(─+)$/gmu;

/**
 * Colors the marks of lines and the headers of tables, if the stream is a terminal that shows colors and NO_COLOR
 * isn't set.
 */
export function paint(text: string, stream: WriteStream): string {
  return text
    .replace(HEADER, (_all, head: string, rule: string) => {
      return `${styleText("bold", head, { stream })}\n${styleText("dim", rule, { stream })}`;
    })
    .split("\n")
    .map((line) =>
      line.replace(MARK, (_all, indent: string, mark: keyof typeof MARKS) => {
        return `${indent}${styleText(MARKS[mark], mark, { stream })}`;
      }),
    )
    .join("\n");
}
