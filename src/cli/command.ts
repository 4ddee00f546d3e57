import type { Command } from "commander";
import type { Context } from "./context.ts";
import type { Outcome } from "./outcome.ts";

/** Runs a command that was parsed, with what it needs; `rest` are keys of its document that stand there even when it fails. */
export type Act = (
  command: Command,
  run: (context: Context) => Promise<Outcome>,
  rest?: object,
) => Promise<void>;

/** Declares one command. */
export type AddCommand = (program: Command, act: Act) => void;
