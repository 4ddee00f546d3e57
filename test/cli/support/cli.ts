import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";
import { atEnd } from "./at-end.ts";
import { expectDescribed } from "./documents.ts";

/** Launcher of the checkout. */
export const launcher = fileURLToPath(new URL("../../../bin/person-etl", import.meta.url));

/** Exit and output of a finished command. */
export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command. */
export interface RunningCli {
  readonly child: ChildProcess;
  readonly result: Promise<CliResult>;
  /** Waits until standard error contains the text. */
  logged(text: string): Promise<void>;
  /** Waits until standard output contains the text. */
  printed(text: string): Promise<void>;
  /** Waits for the first line on standard output. */
  firstLine(): Promise<string>;
}

/** Options of a command. */
export interface CliOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** A shell command that limits the program's resources. */
  readonly limit?: string;
  /** Starts the program; by default the launcher of the built one. */
  readonly command?: readonly [string, ...string[]];
  /** Standard input; nothing by default. */
  readonly stdin?: "pipe";
}

/** Starts the real program with a minimal environment. */
export function startCli(args: readonly string[], options: CliOptions): RunningCli {
  const command = options.command ?? [inject("program")];
  const [program, ...first] = options.limit
    ? ["sh", "-c", `${options.limit}; exec "$0" "$@"`, ...command]
    : command;
  const child = spawn(program, [...first, ...args], {
    cwd: options.cwd,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: process.env["HOME"] ?? "/",
      NODE_COMPILE_CACHE: join(inject("runFolder"), "compile-cache"),
      ...options.env,
    },
    stdio: [options.stdin ?? "ignore", "pipe", "pipe"],
  });
  atEnd(() => {
    child.kill("SIGKILL");
  });
  let stdout = "";
  let stderr = "";
  let changed = Promise.withResolvers<void>();
  const note = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    note();
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
    note();
  });
  let isEnded = false;
  const ended = once(child, "close");
  child.once("close", () => {
    isEnded = true;
  });
  const waitFor = async (isThere: () => boolean): Promise<void> => {
    while (!isThere()) {
      if (isEnded) throw new Error(`the command ended (${child.exitCode}):\n${stdout}\n${stderr}`);
      await Promise.race([changed.promise, ended]);
    }
  };
  return {
    child,
    result: ended.then(() => ({ code: child.exitCode, stdout, stderr })),
    logged: (text) => waitFor(() => stderr.includes(text)),
    printed: (text) => waitFor(() => stdout.includes(text)),
    async firstLine() {
      await waitFor(() => stdout.includes("\n"));
      return stdout.slice(0, stdout.indexOf("\n"));
    },
  };
}

/** Runs the real program until it ends. */
export async function runCli(args: readonly string[], options: CliOptions): Promise<CliResult> {
  return await startCli(args, options).result;
}

/** Runs it with `--json` and parses its only document. */
export async function runJson(
  args: readonly string[],
  options: CliOptions,
): Promise<CliResult & { readonly document: Document }> {
  const result = await runCli(["--json", ...args], options);
  await expectDescribed(args, JSON.parse(result.stdout));
  // Members that the tests read; a document of another shape fails in the comparison.
  return { ...result, document: JSON.parse(result.stdout) as Document };
}

/** Keys of documents that the tests read. */
export interface Document {
  readonly status?: string;
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly problems?: readonly {
      readonly path: string;
      readonly message: string;
      readonly line?: number;
      readonly hint?: string;
    }[];
  };
  readonly [key: string]: unknown;
}

/** Temporary folder of one test with these files; removed after the test run. */
export async function makeFolder(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = await mkdtemp(join(inject("runFolder"), "cli-"));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}
