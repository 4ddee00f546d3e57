import { Terminal } from "@xterm/headless";

/**
 * Renders everything that a terminal of this width shows, with what scrolled off at the top, after all control sequences.
 * @param isColored keeps colors, bold and dim as escape sequences
 */
export async function renderScreen(
  screen: string,
  columns: number,
  { isColored }: { readonly isColored: boolean },
): Promise<string> {
  const terminal = new Terminal({ cols: columns, rows: 50, scrollback: 100_000, allowProposedApi: true });
  await new Promise<void>((resolve) => {
    terminal.write(screen, resolve);
  });
  const { active } = terminal.buffer;
  const lines = Array.from({ length: active.length }, (_, y) => {
    const line = active.getLine(y);
    const text = line?.translateToString(true) ?? "";
    if (!line || !isColored) return text;
    let [shown, style] = ["", ""];
    for (let x = 0; x < text.length; x++) {
      const cell = line.getCell(x);
      const codes = [
        ...(cell?.isBold() ? [1] : []),
        ...(cell?.isDim() ? [2] : []),
        ...(cell?.isFgPalette() ? [30 + cell.getFgColor()] : []),
      ];
      const next = codes.length === 0 ? "" : `\u001b[${codes.join(";")}m`;
      if (next !== style) shown += `${style === "" ? "" : "\u001b[0m"}${next}`;
      style = next;
      shown += cell?.getChars() || " ";
    }
    return style === "" ? shown : `${shown}\u001b[0m`;
  });
  terminal.dispose();
  return lines.join("\n").trimEnd();
}
