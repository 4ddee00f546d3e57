import { Command, type CommanderError, Option } from "commander";
import { type Act, addCommands } from "./commands.ts";
import { helpByCommand } from "./examples.ts";
import { UsageError } from "./failure.ts";
import { docsPath, programName, readVersion } from "./package.ts";
import { logLevels } from "../log.ts";
import { ENVIRONMENTS } from "../suggest.ts";

/** Creates the command line: all commands with their options, examples and page. Throws instead of ending the process. */
export function createProgram(act: Act, writeOut: (text: string) => void = () => {}): Command {
  const program = new Command(programName)
    .description("Sends rows of your tables to a person data service and stores the responses in Postgres.")
    .version(readVersion(), "-V, --version", "Print the version")
    .option("-c, --config <file>", "Configuration file (default: config.yaml)")
    .option("--json", "Print the result as a JSON document")
    .addOption(new Option("--log-level <level>", "Level of the log on standard error").choices(logLevels))
    .helpOption("-h, --help", "Print this help")
    .helpCommand("help [command]", "Print the help of a command")
    .exitOverride()
    .configureOutput({ writeOut, writeErr: () => {} })
    .configureHelp({ showGlobalOptions: true });
  addCommands(program, act);
  for (const [name, { examples, page }] of Object.entries(helpByCommand)) {
    findCommand(program, name.split(" ")).addHelpText("after", () => renderExamples(examples, page));
  }
  program.addHelpText("after", () => renderExamples(FIRST_STEPS, "first-run.md"));
  return program;
}

const FIRST_STEPS = {
  init: "Writes config.yaml",
  check: "Verifies everything that a run needs",
  plan: "Shows what a run would send, and what it would cost",
  run: "Runs all jobs",
};

function renderExamples(examples: Readonly<Record<string, string>>, page: string): string {
  const lines = Object.entries(examples).map(
    ([command, effect]) => `  # ${effect}\n  ${programName} ${command}`,
  );
  return ["", "Examples:", ...lines, "", `Documentation: ${docsPath(page)}`].join("\n");
}

/** Path of a command in words, without the program's name: `["rejects", "list"]`. */
export function pathOf(command: Command): readonly string[] {
  return command.parent ? [...pathOf(command.parent), command.name()] : [];
}

/** Deepest command that the words name; other words, such as options, are skipped. */
function findCommand(program: Command, words: readonly string[]): Command {
  return words.reduce(
    (command, word) => command.commands.find((one) => one.name() === word) ?? command,
    program,
  );
}

/**
 * Replaces `person-etl COMMAND` and `docs/PAGE` in a message by what the user can type and open here.
 * @param config file of `--config`; null without that option
 */
export function localized(program: Command, text: string, config: string | null): string {
  const names = program.commands.map((command) => command.name()).join("|");
  const command = new RegExp(`(?<![\\w./-])person-etl (?=(?:${names})\\b)`, "gu");
  const flag = config === null ? "" : `--config ${/\s/u.test(config) ? `'${config}'` : config} `;
  return text
    .replaceAll(command, () => `${programName} ${flag}`)
    .replaceAll(/(?<![\w./-])docs\/([\w-]+\.md)/gu, (_path, page: string) => docsPath(page));
}

/** Names that other programs have for a command. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  build: "run",
  cost: "costs",
  debug: "check",
  delete: "erase",
  "dry-run": "plan",
  forget: "erase",
  preview: "plan",
  serve: "ui",
  start: "schedule",
  sync: "run",
  test: "check",
  unlock: "audience unlock",
  upgrade: "migrate",
  validate: "check",
  verify: "check",
};

/** Forms of values that need a flag. */
const FLAGS = { "--source-key": /^[a-z]\w*\/\S+$/u, "--pid": /^p-\w+$/u, "--email": /^\S+@\S+$/u };

/** Suggestion for a wrong command line; undefined for none. */
function meantBy({ options }: Command, text: string): string | undefined {
  const [, kind, name = ""] = /^unknown (command|option) '(?:--)?([\w-]+)/u.exec(text) ?? [];
  if (kind === "option" && ENVIRONMENTS.test(name)) {
    return "Write one file per environment, and choose it with --config prod.yaml.";
  }
  const given = / but got \d+: ([^]*)$/u.exec(text)?.[1] ?? "";
  const flag = Object.entries(FLAGS).find(
    ([long, form]) => form.test(given) && options.some((one) => one.long === long),
  )?.[0];
  const command = kind === "command" ? OTHER_NAMES[name] : undefined;
  const other = flag ? `${flag} …` : command;
  return other && `Did you mean ${other}?`;
}

/** Explains a wrong command line, and names the command, option or help that was probably meant. */
export function usageErrorOf(program: Command, argv: readonly string[], error: CommanderError): UsageError {
  const command = findCommand(program, argv);
  const help = `See ${[programName, ...pathOf(command)].join(" ")} --help.`;
  if (error.code === "commander.help") {
    const own = command.parent ? command.commands.map((child) => child.name()) : [];
    const choice =
      own.length === 0
        ? ""
        : ` Write ${own.join(", ").replace(/, (\w+)$/u, " or $1")} after ${command.name()}.`;
    return new UsageError(`No command given.${choice} ${help}`);
  }
  const [, text = "", similar] =
    /^(?:error: )?([^]*?)\.?(?:\n\((Did you mean [^]*)\))?$/u.exec(error.message) ?? [];
  const meant = meantBy(command, text) ?? similar;
  // Arguments, and values of options, may be personal data.
  const shown = text
    .replace(/( but got \d+): [^]*$/u, "$1")
    .replace(/^(unknown option '[^=]*)=[^]*$/u, "$1'");
  const sentence = `${shown.charAt(0).toUpperCase()}${shown.slice(1).replaceAll("\n", " ")}.`;
  return new UsageError([sentence, ...(meant === undefined ? [] : [meant]), help].join(" "));
}
