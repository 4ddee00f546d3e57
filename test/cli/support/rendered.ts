import { Terminal } from "@xterm/headless";

/** Renders everything that a terminal of this width shows, with what scrolled off at the top, after all control sequences. */
export async function renderScreen(screen: string, columns: number): Promise<string> {
  const terminal = new Terminal({ cols: columns, rows: 50, scrollback: 100_000, allowProposedApi: true });
  await new Promise<void>((resolve) => {
    terminal.write(screen, resolve);
  });
  const { active } = terminal.buffer;
  const lines = Array.from({ length: active.length }, (_, y) => active.getLine(y)?.translateToString(true));
  terminal.dispose();
  return lines.join("\n").trimEnd();
}
