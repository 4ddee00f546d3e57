import { basename, dirname } from "node:path";
import { FixConfigurationError } from "../../errors.ts";
import type { Context } from "../context.ts";
import type { Outcome } from "../outcome.ts";
import { programName } from "../version.ts";
import { type Draft, findProblems, nameIn, type Target } from "./draft.ts";
import { type InitFlags, isComplete } from "./flags.ts";
import { answerAll, askAll, type Question, type Settled } from "./question.ts";

/** Asks all questions on a terminal, otherwise takes flags and proposals; throws the problems of the result. */
export async function settle(
  context: Context,
  questions: readonly Question[],
  start: Draft,
  target: Target,
  flags: InitFlags,
): Promise<Settled> {
  const settled =
    context.ask === null || isComplete(flags)
      ? await answerAll(questions, start, flags)
      : { draft: await askAll(questions, start, { ask: context.ask, flags, target }), notes: [] };
  const problems = await findProblems(target, settled.draft);
  if (problems.length === 0) return settled;
  throw new FixConfigurationError(
    "invalid_configuration",
    "These answers don't make a valid configuration; nothing was written:",
    problems,
  );
}

/** Result with notes, the next commands, and the variables to set before them. */
export function outcomeOf(
  context: Context,
  file: string,
  { draft: { answers }, notes }: Settled,
  done: string,
): Outcome {
  const references = [answers.apiKey ?? "", answers.warehouseUrl].filter((text) => text.startsWith("${"));
  const unset = references.map(nameIn).filter((name) => !context.env[name]?.trim());
  const flag = dirname(file) === process.cwd() && basename(file) === "config.yaml" ? "" : ` --config ${file}`;
  const next = ["check", "plan", "run"].map((command) => `${programName}${flag} ${command}`);
  return {
    document: { file, notes, next, unset },
    text: [
      done,
      ...notes.map((note) => `! ${note}`),
      ...(unset.length === 0
        ? []
        : [`! Set ${unset.join(" and ")} in the environment before the next command.`]),
      "Next:",
      ...next.map((line) => `  ${line}`),
    ].join("\n"),
    exitCode: 0,
  };
}
