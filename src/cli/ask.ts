import { createInterface } from "node:readline/promises";

/** Asks a question on the terminal. End of input counts as an empty answer. */
export async function askOnTerminal(question: string, signal: AbortSignal): Promise<string> {
  // `terminal: true` would make readline handle Ctrl-C, which must reach our signal handler.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  const ended = new Promise<string>((resolve) => {
    lines.once("close", () => resolve(""));
  });
  try {
    return (await Promise.race([lines.question(question, { signal }), ended])).trim();
  } finally {
    lines.close();
  }
}

/** True for "y" or "yes". */
export function isYes(answer: string): boolean {
  return /^y(es)?$/i.test(answer);
}
