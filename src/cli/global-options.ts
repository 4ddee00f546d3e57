import type { Command } from "commander";
import { Option } from "commander";
import type { LogLevel } from "../config/config.ts";

export type { LogLevel } from "../config/config.ts";

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
