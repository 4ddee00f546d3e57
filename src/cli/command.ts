import { type Command, InvalidArgumentError, Option } from "commander";
import { randomBytes } from "node:crypto";
import { type Failure, failureDocument, renderFailure, UsageError } from "./failure.ts";
import type { Logger, Scrubber } from "./output.ts";
import type { StopSignals } from "./signals.ts";
import type { LogLevel } from "../config/config.ts";
import { LimitReachedError } from "../errors.ts";
import { type Progress, readShard, type Shard } from "../jobs/services.ts";
import type { RowKey } from "../load/inputs/input.ts";
import type { Log } from "../log.ts";

/** Declares one command. */
export type AddCommand = (program: Command, act: Act) => void;

/** Runs a parsed command. `rest` has keys of its document that are present even after a failure. */
export type Act = (
  command: Command,
  run: (context: Context) => Promise<Outcome>,
  rest?: object,
) => Promise<void>;

/** Options and services of a command. */
export interface Context {
  readonly options: GlobalOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Logger;
  readonly scrubber: Scrubber;
  readonly progress: Progress;
  /** Prints a message about slow work on a terminal; otherwise the log has it. */
  readonly notify: (sentence: string) => void;
  readonly stop: StopSignals;
  /** Waits for a signal, which then stops nothing that is worth a message. */
  readonly untilStopped: () => Promise<void>;
  /** Closed after the command, even if it fails. */
  readonly scope: Scope;
  /** Width of the terminal for the result; null if the result is not written to a terminal. */
  readonly widthColumns: number | null;
  /** Prints the result before the end, for long-running commands. */
  readonly announce: (document: object, text: string) => Promise<void>;
  /** True if standard error is a terminal. */
  readonly isWatched: boolean;
  /** Asks on the terminal, null at the end of input; null if no one can answer. Rejects if `signal` aborts. */
  readonly ask: ((question: string, signal?: AbortSignal) => Promise<string | null>) | null;
}

/** Closes resources before the process ends, in reverse order. */
interface Scope {
  defer(name: string, close: () => Promise<void> | void): void;
  /** Like `defer`, for a child process, which would otherwise keep running. */
  deferProgram(name: string, close: () => Promise<void> | void): void;
  /** Closes everything, even if something fails; idempotent. */
  close(): Promise<void>;
  /** Closes only the child processes, concurrently. */
  closePrograms(): Promise<void>;
}

/** Result of a command. */
export interface Outcome {
  /** Printed with `--json`; null if the result was already announced. */
  readonly document: object | null;
  /** Printed without `--json`; no line end at the end. */
  readonly text: string;
  readonly exitCode: number;
  /** Present if the whole command failed. */
  readonly failure?: Failure;
}

/** Outcome of a successful command. */
export function result(document: object | null, text: string, exitCode = 0): Outcome {
  return { document, text, exitCode };
}

/** Outcome of a failed command. `rest` has more keys of its document that programs rely on. */
export function failedOutcome(failure: Failure, rest: object = {}): Outcome {
  return {
    document: { ...rest, error: failureDocument(failure) },
    text: renderFailure(failure),
    exitCode: failure.exitCode,
    failure,
  };
}

/** True for "y" or "yes"; the end of input is a no. */
export function isYes(answer: string | null): boolean {
  return answer !== null && /^y(es)?$/i.test(answer);
}

/** Question that the terminal's user answers with yes or no; absent if no one can answer. */
export function confirmation({ ask }: Context): { confirm?: (question: string) => Promise<boolean> } {
  return ask ? { confirm: async (question) => isYes(await ask(`${question} [y/N] `)) } : {};
}

/**
 * Asks for confirmation unless the flag `--yes` is given; throws if it is refused.
 * @param what sentence without its period
 * @param done past participle for the message that nothing was done
 */
export async function requireYes(
  context: Context,
  yes: boolean | undefined,
  what: string,
  done: "changed" | "removed" = "changed",
): Promise<void> {
  if (yes === true) return;
  const { confirm } = confirmation(context);
  if (await confirm?.(`${what}. Continue?`)) return;
  const reason = confirm
    ? `Nothing was ${done}, because you declined.`
    : `Nothing was ${done}; run again with --yes to confirm.`;
  throw new LimitReachedError("confirmation", `${what}. ${reason}`);
}

/** Parses a whole number of a flag, bounds inclusive. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least || value > most) {
      throw new InvalidArgumentError(
        `Expected a whole number, ${least} ${most === Number.MAX_SAFE_INTEGER ? "or more" : `to ${most}`}.`,
      );
    }
    return value;
  };
}

/** Parses the shard of a flag. */
export function parseShard(text: string): Shard {
  const shard = readShard(text);
  if (shard === null) {
    throw new InvalidArgumentError("Expected I/N, with I from 0 to N - 1: 0/4, 1/4, 2/4 or 3/4.");
  }
  return shard;
}

/** Generates a run ID that sorts by time. */
export function newRunId(): string {
  const time = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "");
  return `${time}Z-${randomBytes(4).toString("hex")}`;
}

/** Parses the run ID of a scheduler (`scheduled__2026-11-20T01:15:00+00:00`). */
export function readRunId(text: string): string {
  if (/^[\w.:+@/-]{1,200}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected 1 to 200 letters, digits and . _ : + @ / -");
}

/**
 * Parses `customers/4711`: input name and key, which may contain slashes. The key of an input with several key columns is a
 * JSON list, and is returned in canonical form, as stored in tables.
 * @param flag flag or command in messages
 */
export function parseSourceKey(
  text: string,
  inputs: Readonly<Record<string, { readonly key: readonly string[] }>>,
  flag = "--source-key",
): RowKey {
  const slash = text.indexOf("/");
  const [source, sourceKey] = [text.slice(0, slash), text.slice(slash + 1)];
  if (slash <= 0 || sourceKey === "") {
    throw new UsageError(`${flag} takes an input name, a slash and a key, such as customers/4711.`);
  }
  const columns = inputs[source]?.key ?? [];
  return {
    source,
    sourceKey: columns.length > 1 ? canonicalKey({ source, sourceKey }, columns, flag) : sourceKey,
  };
}

/** Values of the key columns of a parsed row. */
export function keyValues({ sourceKey }: RowKey, columns: readonly string[]): readonly string[] {
  return columns.length > 1 ? (readList(sourceKey) ?? []) : [sourceKey];
}

function canonicalKey({ source, sourceKey }: RowKey, columns: readonly string[], flag: string): string {
  const values = readList(sourceKey);
  if (values?.length !== columns.length) {
    throw new UsageError(
      `The key of ${source} has the columns ${columns.join(", ")}. Use ${flag} '${source}/[${columns.map(() => '"…"').join(",")}]'.`,
    );
  }
  return `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
}

/** Parses a JSON list of texts or integers as texts; null if invalid. */
function readList(text: string): readonly string[] | null {
  try {
    const list: unknown = JSON.parse(text);
    if (!Array.isArray(list)) return null;
    const values = list.flatMap((value) =>
      typeof value === "string" || Number.isSafeInteger(value) ? String(value) : [],
    );
    return values.length === list.length ? values : null;
  } catch {
    return null;
  }
}

/** Log levels, most verbose first. */
const LOG_LEVELS: readonly LogLevel[] = ["trace", "debug", "info", "warn", "error", "silent"];

/** Options of all commands, allowed before or after the command's name. */
export interface GlobalOptions {
  /** Null if not given. */
  readonly config: string | null;
  readonly json: boolean;
  /** Null if not given. */
  readonly logLevel: LogLevel | null;
}

/** Declares the global options. */
export function addGlobalOptions(program: Command): void {
  program
    .option("-c, --config <file>", "configuration file (default: config.yaml)")
    .option("--json", "print the result as a JSON document")
    .addOption(new Option("--log-level <level>", "level of the log on standard error").choices(LOG_LEVELS));
}

/** Returns the global options of a parsed command line. */
export function globalOptionsOf(command: Command): GlobalOptions {
  const { config, json, logLevel } = command.optsWithGlobals();
  return {
    config: typeof config === "string" ? config : null,
    json: json === true,
    logLevel: LOG_LEVELS.find((level) => level === logLevel) ?? null,
  };
}

/** Creates a scope. Failures to close are only logged, because the command already has its result. */
export function createScope(log: Log): Scope {
  const closers: { name: string; isProgram: boolean; close: () => Promise<void> | void }[] = [];

  async function end({ name, close }: (typeof closers)[number]): Promise<void> {
    try {
      await close();
    } catch (error) {
      log.warn({ what: name, error }, "closing_failed");
    }
  }

  return {
    defer: (name, close) => closers.push({ name, isProgram: false, close }),
    deferProgram: (name, close) => closers.push({ name, isProgram: true, close }),
    async close() {
      for (let next = closers.pop(); next; next = closers.pop()) await end(next);
    },
    async closePrograms() {
      await Promise.all(closers.filter((closer) => closer.isProgram).map(end));
    },
  };
}
