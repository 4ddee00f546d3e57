import { createInterface } from "node:readline/promises";

/** Asks one question on the terminal; an ended input counts as an empty answer. */
export async function askOnTerminal(question: string, signal: AbortSignal): Promise<string> {
  // Not a `terminal` to readline: that would swallow Ctrl-C, which has to reach our signal handler.
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

/** True when the answer means yes; anything else, an empty one too, means no. */
export function isYes(answer: string): boolean {
  return /^y(es)?$/i.test(answer);
}
