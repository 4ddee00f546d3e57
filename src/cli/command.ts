import type { Command } from "commander";
import type { Context } from "./context.ts";
import type { Outcome } from "./outcome.ts";

/** Runs a parsed command. `rest` has keys of its document that are present even after a failure. */
export type Act = (
  command: Command,
  run: (context: Context) => Promise<Outcome>,
  rest?: object,
) => Promise<void>;

/** Declares one command. */
export type AddCommand = (program: Command, act: Act) => void;
