import type { Command } from "commander";
import { randomBytes } from "node:crypto";
import { link, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import type { AddCommand, Context, Outcome } from "../command.ts";
import { UsageError } from "../failure.ts";
import {
  answerAll,
  askAll,
  type Draft,
  findProblems,
  type InitFlags,
  isComplete,
  nameIn,
  type Question,
  type Settled,
  START,
  type Target,
  withAnswers,
} from "../init/ask.ts";
import {
  fieldsQuestion,
  keyColumnsQuestion,
  normalizeQuestion,
  tableQuestion,
} from "../init/input-questions.ts";
import {
  keyQuestion,
  openEmbeddedSource,
  type Opening,
  openPostgresSource,
  readingOf,
  serviceQuestion,
  warehouseQuestion,
} from "../init/service-questions.ts";
import { openConfig } from "../app.ts";
import { programName, schemaFor } from "../package.ts";
import { addInputToText, renderConfig } from "../../config/template.ts";
import type { Config } from "../../config/config.ts";
import { NAME } from "../../config/schema/values.ts";
import { chooseDataDir, locateConfig } from "../../config/settings.ts";
import { codeOf, FixConfigurationError } from "../../errors.ts";

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
    .option("--normalize", "trim values, lowercase e-mail addresses, leave out placeholders")
    .option("--no-normalize", "send values as they are (default without a terminal)")
    .action((flags: InitFlags, command: Command) => act(command, (context) => init(context, flags)));
};

async function init(context: Context, flags: InitFlags): Promise<Outcome> {
  const file = resolve(locateConfig(context.options.config ?? undefined, context.env));
  return flags.addInput === undefined
    ? await createConfig(context, file, flags)
    : await addInput(context, file, flags, flags.addInput);
}

/** Writes a new configuration. */
async function createConfig(context: Context, file: string, flags: InitFlags): Promise<Outcome> {
  if (await stat(file).catch(() => null)) throw fileExists(file);
  const dataDir = chooseDataDir({}, context.env, file, ".person-etl");
  const questions = [
    serviceQuestion,
    keyQuestion,
    warehouseQuestion(context, dataDir, isComplete(flags)),
    tableQuestion(flags.input),
    keyColumnsQuestion,
    fieldsQuestion,
    normalizeQuestion,
  ];
  const schema = schemaFor(file);
  const render: Target["render"] = (answers) =>
    renderConfig(
      { ...answers, warehouseUrl: answers.warehouseUrl || "embedded", table: answers.table || "t" },
      schema,
    );
  const settled = await settle(context, questions, START, { file, env: context.env, render }, flags);
  const { answers } = settled.draft;
  await writeNewFile(file, render(answers));
  return outcomeOf(context, file, settled, `✓ Wrote ${file}: input ${answers.input} of ${answers.table}.`);
}

/** Adds an input and its jobs to an existing configuration. */
async function addInput(context: Context, file: string, flags: InitFlags, name: string): Promise<Outcome> {
  const config = await openConfig(context);
  const text = await readFile(file, "utf8");
  refuseName(config, name);
  const questions = [
    databaseQuestion(context, config, flags),
    tableQuestion(name),
    keyColumnsQuestion,
    fieldsQuestion,
    normalizeQuestion,
  ];
  const render = (answers: Draft["answers"]): string => {
    const added = addInputToText(text, { ...answers, table: answers.table || "t" });
    if (added !== null) return added;
    const summary = `${file} can't be extended, because \`inputs\` or \`jobs\` is written in braces.`;
    const hint = "write one entry per line, without { }, and run this again";
    throw new FixConfigurationError("invalid_configuration", summary, [
      { path: "inputs", message: "is written in braces", hint },
    ]);
  };
  const start = withAnswers(START, {
    baseUrl: config.service.baseUrl,
    warehouseUrl: config.warehouse.url === "embedded" ? "embedded" : "",
    input: name,
  });
  const settled = await settle(context, questions, start, { file, env: context.env, render }, flags);
  if ((await readFile(file, "utf8")) !== text) {
    throw new UsageError(`${file} was changed in the meantime and is left as it is. Run this again.`);
  }
  await replaceText(file, render(settled.draft.answers));
  return outcomeOf(context, file, settled, `✓ Added input ${name} and its jobs to ${file}.`);
}

function refuseName(config: Config, name: string): void {
  const path = `inputs.${name}`;
  const refuse = (message: string, hint: string) => {
    throw new FixConfigurationError("invalid_configuration", `The input ${name} can't be added.`, [
      { path, message, hint },
    ]);
  };
  if (!NAME.test(name))
    refuse("is not a valid name", "use lower-case letters, digits and _, starting with a letter");
  if (Object.hasOwn(config.inputs, name)) refuse("already exists", "choose another name");
  const added = ["resolve", "validate", "enrich"].map((type) => `${type}_${name}`);
  const taken = config.jobs.find((job) => added.includes(job.name));
  if (taken) refuse(`would add the job ${taken.name}, which already exists`, "choose another name");
}

/** Asks all questions on a terminal, otherwise takes flags and proposals; throws the problems of the result. */
async function settle(
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
function outcomeOf(
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

/** Asks for the database of the rows if there are connections; opens it and lists its tables. */
function databaseQuestion(context: Context, config: Config, flags: InitFlags): Question {
  const names = Object.keys(config.connections);
  return {
    text: () => `Database of the rows: \`warehouse\`, or a connection (${names.join(", ")})`,
    proposal: ({ answers }) => answers.connection ?? "warehouse",
    given: ({ connection }) => connection ?? (names.length === 0 ? "warehouse" : undefined),
    owns: ({ path }, { answers }) => path === `inputs.${answers.input}.connection`,
    async read(reply, before) {
      const connection = reply === "warehouse" ? null : reply;
      const draft = { ...withAnswers(before, { connection }), source: null };
      if (connection !== null && !names.includes(connection)) {
        return {
          refused: `${reply} is not a configured connection. Known: ${["warehouse", ...names].join(", ")}.`,
        };
      }
      if (isComplete(flags)) return { draft };
      return readingOf(await openDatabase(context, config, connection), draft);
    },
  };
}

async function openDatabase(context: Context, config: Config, name: string | null): Promise<Opening> {
  const { warehouse, connections, dataDir } = config;
  const own = [warehouse.schema, warehouse.opsSchema, warehouse.stateSchema];
  if (name === null) {
    const { url, allowInsecure } = warehouse;
    return url === "embedded"
      ? await openEmbeddedSource(context, dataDir, own)
      : await openPostgresSource(context, { url: await url.read(), allowInsecure }, own);
  }
  const connection = connections[name];
  if (connection?.type !== "postgres") {
    return { source: null, failure: "The tables of BigQuery can't be listed." };
  }
  const { url, allowInsecure } = connection;
  return await openPostgresSource(context, { url: await url.read(), allowInsecure }, []);
}

/** Error of a configuration that exists already. */
function fileExists(file: string, cause?: unknown): FixConfigurationError {
  return new FixConfigurationError(
    "file_exists",
    `${file} already exists and was not changed. Add an input with --add-input NAME, or write another file with --config FILE.`,
    [],
    cause === undefined ? {} : { cause },
  );
}

/** Writes a new file atomically, readable only by its owner; never replaces one. */
async function writeNewFile(file: string, text: string): Promise<void> {
  const draft = draftOf(file);
  try {
    await writeFile(draft, text, { mode: 0o600, flag: "wx" });
    await link(draft, file);
  } catch (error) {
    throw codeOf(error) === "EEXIST" ? fileExists(file, error) : error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** Replaces the text of a file atomically; keeps its mode, and links to it. */
async function replaceText(file: string, text: string): Promise<void> {
  const target = await realpath(file);
  const { mode } = await stat(target);
  const draft = draftOf(target);
  try {
    await writeFile(draft, text, { mode: mode & 0o777, flag: "wx" });
    await rename(draft, target);
  } finally {
    await rm(draft, { force: true });
  }
}

function draftOf(file: string): string {
  return `${file}.${randomBytes(4).toString("hex")}`;
}
