import type { Command } from "commander";
import { randomBytes } from "node:crypto";
import { type Failure, renderFailure, UsageError } from "./failure.ts";
import type { Text } from "./output.ts";
import type { StopSignals } from "./signals.ts";
import type { GlobalOptions, Terminal } from "./terminal.ts";
import type { Config, InputConfig, LineOf } from "../config/config.ts";
import { LimitReachedError } from "../errors.ts";
import type { RowKey } from "../load/inputs/input.ts";
import type { Log } from "../log.ts";
import { suggest } from "../suggest.ts";

export interface Context extends Pick<Terminal, "log" | "scrubber" | "progress" | "isWatched"> {
  readonly options: GlobalOptions;
  /** The whole command line as declared. */
  readonly program: Command;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Set as soon as the configuration is loaded; problems found later are reported with their line. */
  readonly loaded: { lineOf: LineOf };
  /** Prints a message about slow work on a terminal; otherwise the log has it. */
  readonly notify: (sentence: string) => void;
  readonly stop: StopSignals;
  /** Waits for a signal, which then stops nothing that is worth a message. */
  readonly untilStopped: () => Promise<void>;
  /** Closed after the command, even if it fails. */
  readonly scope: Scope;
  /** Prints the result before the end, for long-running commands. */
  readonly announce: (document: object, text: string) => Promise<void>;
  /** Replaces commands and pages in a message by what the user can type and open here. */
  readonly localize: (message: string) => string;
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

export interface Outcome<Document extends object | null = object | null> {
  /** Printed with `--json`; null if the result was already announced. */
  readonly document: Document;
  /** Printed without `--json`; no line end at the end. */
  readonly text: Text;
  /** The text has data of tables, files or the service, which must stay as it is. */
  readonly isData?: boolean;
  readonly exitCode: number;
  /** Present if the whole command failed. */
  readonly failure?: Failure;
}

export function result<Document extends object | null>(
  document: Document,
  text: Text,
  exitCode = 0,
): Outcome<Document> {
  return { document, text, exitCode };
}

/** Result whose text has data: commands and pages in it stay as they are. */
export function dataResult<Document extends object | null>(
  document: Document,
  text: Text,
  exitCode = 0,
): Outcome<Document> {
  return { ...result(document, text, exitCode), isData: true };
}

/** Outcome of a failed command. `rest` has more keys of its document that programs rely on. */
export function failedOutcome(failure: Failure, rest: object = {}): Outcome {
  const { code, message, problems, exitCode } = failure;
  const error = { code, message, ...(problems.length === 0 ? {} : { problems }) };
  return { document: { ...rest, error }, text: renderFailure(failure), exitCode, failure };
}

/** Question that the terminal's user answers with yes or no; absent if no one can answer. The end of input is a no. */
export function confirmation({ ask }: Context): { confirm?: (question: string) => Promise<boolean> } {
  return ask
    ? { confirm: async (question) => /^y(?:es)?$/i.test((await ask(`${question} [y/N] `)) ?? "") }
    : {};
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

/** Generates a run ID that sorts by time. */
export function newRunId(): string {
  const time = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "");
  return `${time}Z-${randomBytes(4).toString("hex")}`;
}

/**
 * Parses `customers/4711`: input name and key, which may contain slashes. The key of an input with several key columns is a
 * JSON list, and is returned in canonical form, as stored in tables, and as `key` with the values of its columns.
 * @param flag flag or command in messages
 */
export function parseSourceKey(
  text: string,
  inputs: Readonly<Record<string, { readonly key: readonly string[] }>>,
  flag = "--source-key",
): RowKey & { readonly key: readonly string[] } {
  const [, source = "", sourceKey = ""] = /^([^/]+)\/([^]+)$/.exec(text) ?? [];
  if (source === "") {
    throw new UsageError(`${flag} takes an input name, a slash and a key, such as customers/4711.`);
  }
  const columns = inputs[source]?.key ?? [];
  if (columns.length <= 1) return { source, sourceKey, key: [sourceKey] };
  const key = readList(sourceKey);
  if (key?.length === columns.length) {
    return { source, sourceKey: `[${key.map((value) => JSON.stringify(value)).join(", ")}]`, key };
  }
  throw new UsageError(
    `The key of ${source} has the columns ${columns.join(", ")}. Use ${flag} '${source}/[${columns.map(() => '"…"').join(",")}]'.`,
  );
}

/** Finds an input by its name. */
export function findInput({ inputs }: Pick<Config, "inputs">, name: string): InputConfig {
  const input = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
  if (input) return input;
  throw new UsageError(`There is no input ${name}. ${hintForInput(name, Object.keys(inputs))}`);
}

export function hintForInput(name: string, known: readonly string[]): string {
  const meant = suggest(name, known);
  return meant === null ? `Inputs of this configuration: ${known.join(", ")}.` : `Did you mean ${meant}?`;
}

/** Parses a JSON list of texts or integers as texts; null if invalid. */
function readList(text: string): readonly string[] | null {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    return null;
  }
  if (!Array.isArray(list)) return null;
  const isList = list.every((value) => typeof value === "string" || Number.isSafeInteger(value));
  return isList ? list.map(String) : null;
}
