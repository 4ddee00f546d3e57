import type { ChildProcess } from "node:child_process";
import { inject } from "vitest";
import { type CliOptions, startCli } from "./cli.ts";

/** A command on a pseudo-terminal. */
export interface TerminalRun {
  readonly child: ChildProcess;
  /** Waits until the text is on the screen. */
  shows(text: string): Promise<void>;
  type(text: string): void;
  /** Complete output, with control characters, and the exit code. */
  readonly ended: Promise<{ readonly code: number | null; readonly screen: string }>;
}

/** Runs the real program on a pseudo-terminal with `columns`, created by `script` (util-linux). */
export function startOnTerminal(
  args: readonly string[],
  options: CliOptions & {
    readonly columns: number;
    /** Program that starts ours; by default its launcher. */
    readonly program?: readonly string[];
  },
): TerminalRun {
  const words = [...(options.program ?? [inject("program")]), ...args];
  const line = `stty cols ${options.columns} rows 50; exec ${words.map(quote).join(" ")}`;
  const running = startCli(["--quiet", "--return", "--command", line, "/dev/null"], {
    cwd: options.cwd,
    env: { TERM: "xterm", SHELL: "/bin/sh", ...options.env },
    command: ["script"],
    stdin: "pipe",
  });
  const { child } = running;
  return {
    child,
    shows: (text) => running.printed(text),
    type(text) {
      child.stdin?.write(text);
    },
    ended: running.result.then(({ code, stdout }) => ({ code, screen: stdout })),
  };
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
