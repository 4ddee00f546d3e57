import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type CliOptions, launcher } from "./cli.ts";
import { atEnd } from "./at-end.ts";

/** A command on a pseudo-terminal. */
export interface TerminalRun {
  readonly child: ChildProcess;
  /** Waits until the text is on the screen. */
  shows(text: string): Promise<void>;
  type(text: string): void;
  /** Output so far. */
  screen(): string;
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
  const words = [...(options.program ?? [launcher]), ...args];
  const command = `stty cols ${options.columns} rows 50; exec ${words.map(quote).join(" ")}`;
  const child = spawn("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
    cwd: options.cwd,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: process.env["HOME"] ?? "/",
      TERM: "xterm",
      SHELL: "/bin/sh",
      ...options.env,
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  atEnd(() => {
    child.kill("SIGKILL");
  });
  let screen = "";
  let changed = Promise.withResolvers<void>();
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    screen += text;
    changed.resolve();
    changed = Promise.withResolvers<void>();
  });
  const closed = once(child, "close");
  return {
    child,
    async shows(text) {
      while (!screen.includes(text)) {
        if (child.exitCode !== null) throw new Error(`it ended without showing ${text}:\n${screen}`);
        await Promise.race([changed.promise, closed]);
      }
    },
    type(text) {
      child.stdin.write(text);
    },
    screen: () => screen,
    ended: closed.then(() => ({ code: child.exitCode, screen })),
  };
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
