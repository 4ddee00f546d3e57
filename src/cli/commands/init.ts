import type { Command } from "commander";
import { randomBytes } from "node:crypto";
import { link, rename, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { loadConfig } from "../../config/load-config.ts";
import { locateConfig } from "../../config/settings.ts";
import { type ConfigAnswers, renderConfig } from "../../config/template.ts";
import { codeOf, FixConfigurationError } from "../../errors.ts";
import { jobTypes } from "../../jobs/registry.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { answersOf, type InitFlags, isComplete } from "../init-answers.ts";
import { askForAnswers } from "../init-questions.ts";
import type { Outcome } from "../outcome.ts";
import { schemaFor } from "../editor-schema.ts";
import { programName } from "../version.ts";

/** `init`: writes a configuration file. */
export const addInit: AddCommand = (program, act) => {
  program
    .command("init")
    .description("write a commented config.yaml (asks on a terminal, otherwise uses flags)")
    .option("--base-url <address>", "address of the service, or `sandbox`")
    .option(
      "--api-key-env <name>",
      "environment variable that holds the API key (default: PERSON_SERVICE_API_KEY)",
    )
    .option(
      "--warehouse-url-env <name>",
      "environment variable that holds the postgresql:// address (default: the embedded database)",
    )
    .option("--table <table>", "table of the input rows (`crm.customers`)")
    .option("--input <name>", "name of the input (default: the table's)")
    .option("--key <columns>", "key columns of the table, separated by commas (default: id)")
    .option("--cursor <column>", "column that changes when a row changes")
    .option(
      "--field <field=columns>",
      "column(s) for a field of the service, such as `emails=email,work_email`; repeatable",
      (value: string, before: readonly string[] | undefined) => [...(before ?? []), value],
    )
    .option("--force", "overwrite an existing file")
    .action((flags: InitFlags, command: Command) => act(command, (context) => init(context, flags)));
};

async function init(context: Context, flags: InitFlags): Promise<Outcome> {
  const file = resolve(locateConfig(context.options.config ?? undefined, context.env));
  const answers =
    isComplete(flags) || context.ask === null ? answersOf(flags) : await askForAnswers(flags, context.ask);
  const text = renderConfig(answers, schemaFor(file));
  await writeConfig(file, text, { force: flags.force === true, answers });
  const next = ["check", "plan", "run"].map((command) => `${programName} --config ${file} ${command}`);
  return {
    document: { file, next },
    text: [`✓ Wrote ${file}. Next:`, ...next.map((line) => `  ${line}`)].join("\n"),
    exitCode: 0,
  };
}

/** Writes the file atomically, readable only by its owner, after validating it. */
async function writeConfig(
  file: string,
  text: string,
  options: { readonly force: boolean; readonly answers: ConfigAnswers },
): Promise<void> {
  const draft = `${file}.${randomBytes(4).toString("hex")}`;
  try {
    await writeFile(draft, text, { mode: 0o600, flag: "wx" });
    await loadConfig({ file: draft, jobTypes, env: placeholders(options.answers) });
    if (options.force) await rename(draft, file);
    else await link(draft, file);
  } catch (error) {
    if (codeOf(error) === "EEXIST") {
      throw new FixConfigurationError(
        "file_exists",
        `${file} already exists and was not changed. Pass --force to overwrite it, or --config FILE to write another one.`,
        [],
        { cause: error },
      );
    }
    if (error instanceof FixConfigurationError) {
      const problems = error.problems.map(({ line: _line, ...problem }) => problem);
      throw new FixConfigurationError(
        "invalid_answers",
        "These answers don't make a valid configuration:",
        problems,
      );
    }
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** Placeholder values for the environment variables in the file, which may not be set yet. */
function placeholders({ apiKey, warehouseUrl }: ConfigAnswers): Record<string, string> {
  return {
    ...(apiKey === null ? {} : { [nameIn(apiKey)]: "stand-in" }),
    [nameIn(warehouseUrl)]: "postgresql://stand-in@localhost/stand-in",
  };
}

/** `${NAME}` → `NAME`. */
function nameIn(reference: string): string {
  return reference.replace(/^\$\{(.*)\}$/, "$1");
}
