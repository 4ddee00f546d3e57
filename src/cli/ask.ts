import { createInterface } from "node:readline/promises";

/** Asks a question on the terminal; null at the end of input. */
export async function askOnTerminal(question: string, signal: AbortSignal): Promise<string | null> {
  // `terminal: true` would make readline handle Ctrl-C, which must reach our signal handler.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  const ended = new Promise<null>((resolve) => {
    lines.once("close", () => resolve(null));
  });
  try {
    const answer = await Promise.race([lines.question(question, { signal }), ended]);
    return answer?.trim() ?? null;
  } finally {
    lines.close();
  }
}

/** True for "y" or "yes"; the end of input is a no. */
export function isYes(answer: string | null): boolean {
  return answer !== null && /^y(es)?$/i.test(answer);
}
