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
