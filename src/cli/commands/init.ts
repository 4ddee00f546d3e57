import type { Command } from "commander";
import { resolve } from "node:path";
import { locateConfig } from "../../config/settings.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { addInput } from "../init/add-input.ts";
import { createConfig } from "../init/create-config.ts";
import type { InitFlags } from "../init/flags.ts";
import type { Outcome } from "../outcome.ts";

/** `init`: writes a configuration file, or adds an input to one. */
export const addInit: AddCommand = (program, act) => {
  program
    .command("init")
    .description(
      "write a commented config.yaml with proposals from your tables (asks on a terminal, otherwise uses flags)",
    )
    .option("--base-url <address>", "address of the service, or `sandbox`")
    .option(
      "--api-key-env <name>",
      "environment variable that holds the API key (default: PERSON_SERVICE_API_KEY)",
    )
    .option(
      "--warehouse-url-env <name>",
      "environment variable that holds the postgresql:// address (default: the embedded database)",
    )
    .option("--add-input <name>", "add an input and its jobs to the existing file")
    .option("--connection <name>", "with --add-input: connection of the table (default: the warehouse)")
    .option("--table <table>", "table or view of people (`crm.customers`)")
    .option("--input <name>", "name of the input (default: the table's)")
    .option("--key <columns>", "key columns, separated by commas (default: the primary key)")
    .option(
      "--field <field=columns>",
      "column(s) for a field of the service, such as `emails=email,work_email`; repeatable (default: from the table)",
      (value: string, before: readonly string[] | undefined) => [...(before ?? []), value],
    )
    .option("--normalize", "trim values, lower-case e-mail addresses, leave out placeholders")
    .option("--no-normalize", "send values as they are (default without a terminal)")
    .action((flags: InitFlags, command: Command) => act(command, (context) => init(context, flags)));
};

async function init(context: Context, flags: InitFlags): Promise<Outcome> {
  const file = resolve(locateConfig(context.options.config ?? undefined, context.env));
  return flags.addInput === undefined
    ? await createConfig(context, file, flags)
    : await addInput(context, file, flags, flags.addInput);
}
