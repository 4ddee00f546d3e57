import { randomBytes } from "node:crypto";
import { link, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, relative, resolve } from "node:path";
import { openConfig } from "../app.ts";
import type { Context } from "../command.ts";
import { UsageError } from "../failure.ts";
import {
  answerAll,
  type Draft,
  type InitFlags,
  type Interview,
  isComplete,
  nameIn,
  type Question,
  rowsOf,
  START,
  withAnswers,
} from "../init/ask.ts";
import {
  fieldsQuestion,
  inputNameOf,
  keyColumnsQuestion,
  normalizeQuestion,
  tableQuestion,
} from "../init/input-questions.ts";
import {
  databaseQuestion,
  fileQuestion,
  keyQuestion,
  serviceQuestion,
  warehouseQuestion,
} from "../init/service-questions.ts";
import { configFlag, programName, schemaFor } from "../package.ts";
import type { Config } from "../../config/config.ts";
import { NAME } from "../../config/schema/settings.ts";
import { isFileName, REMOTE } from "../../config/schema/values.ts";
import { chooseDataDir, locateConfig } from "../../config/settings.ts";
import { addInputToText, renderConfig } from "../../config/template.ts";
import { codeOf, FixConfigurationError } from "../../errors.ts";

export async function init(context: Context, flags: InitFlags) {
  const file = resolve(locateConfig(context.options.config ?? undefined, context.env));
  const { addInput: added } = flags;
  if (added === undefined) return await createConfig(context, file, flags);
  if (!isFileName(added)) return await addInput(context, file, flags, added);
  // A path is relative to the working directory here, and to the file in the configuration.
  const path = REMOTE.test(added) ? added : relative(dirname(file), resolve(added));
  return await addInput(context, file, { ...flags, table: path }, flags.input ?? inputNameOf(path));
}

async function createConfig(context: Context, file: string, flags: InitFlags) {
  if (await stat(file).catch(() => null)) throw fileExists(file);
  const dataDir = chooseDataDir(context.env, file, ".person-etl");
  const schema = schemaFor(file);
  const plan: Plan = {
    questions: [
      serviceQuestion,
      keyQuestion,
      warehouseQuestion(context, dataDir, flags),
      ...inputQuestions(flags.input),
    ],
    start: START,
    render: (answers) =>
      renderConfig({ ...answers, warehouseUrl: answers.warehouseUrl || "embedded" }, schema),
    write: (text) => writeNewFile(file, text),
    done: ({ input, table }) => `✓ Wrote ${file}: input ${input} of ${table}.`,
  };
  return await carryOut(context, file, flags, plan);
}

async function addInput(context: Context, file: string, flags: InitFlags, name: string) {
  const config = await openConfig(context);
  const before = await readFile(file, "utf8");
  refuseName(config, name);
  const { baseUrl } = config.service;
  const table = flags.table !== undefined && isFileName(flags.table) ? flags.table : null;
  const readsFiles = Object.values(config.connections).find((c) => c.type === "duckdb" && c.path === null);
  const source =
    table === null
      ? databaseQuestion(context, config, flags)
      : fileQuestion(context, config, table, flags.connection ?? readsFiles?.name ?? "files");
  const warehouseUrl = config.warehouse.url === "embedded" ? "embedded" : "";
  const plan: Plan = {
    questions: [source, ...inputQuestions(name)],
    start: withAnswers(START, { baseUrl, warehouseUrl, input: name }),
    render(answers) {
      const added = addInputToText(before, answers);
      if (added !== null) return added;
      const summary = `${file} can't be extended, because \`inputs\`, \`jobs\` or \`connections\` is written in braces.`;
      const hint = "write one entry per line, without { }, and run this again";
      throw new FixConfigurationError("invalid_configuration", summary, [
        { path: "inputs", message: "is written in braces", hint },
      ]);
    },
    async write(text) {
      if ((await readFile(file, "utf8")) !== before) {
        throw new UsageError(`${file} was changed in the meantime and is left as it is. Run this again.`);
      }
      await replaceText(file, text);
    },
    done: () => `✓ Added input ${name} and its jobs to ${file}.`,
  };
  return await carryOut(context, file, flags, plan);
}

const inputQuestions = (name: string | undefined): readonly Question[] => [
  tableQuestion(name),
  keyColumnsQuestion,
  fieldsQuestion,
  normalizeQuestion,
];

/** Questions, and where their answers go. */
interface Plan {
  readonly questions: readonly Question[];
  readonly start: Draft;
  readonly render: Interview["render"];
  readonly write: (text: string) => Promise<void>;
  /** First line of the result. */
  readonly done: (answers: Draft["answers"]) => string;
}

/** Settles the questions, on a terminal by asking, and writes the file. Returns notes and the next commands. */
async function carryOut(context: Context, file: string, flags: InitFlags, plan: Plan) {
  const { env } = context;
  // Without a table, everything else can still be validated.
  const render: Interview["render"] = (answers) => plan.render({ ...answers, table: answers.table || "t" });
  const ask = isComplete(flags) ? null : context.ask;
  const given = ask === null ? { normalize: false, ...flags } : flags;
  const { draft, notes } = await answerAll(plan.questions, plan.start, {
    flags: given,
    ask,
    file,
    env,
    render,
  });
  const answers = { ...draft.answers, rows: await rowsOf(draft) };
  await plan.write(render(answers));
  const references = [answers.apiKey ?? "", answers.warehouseUrl].filter((text) => text.startsWith("${"));
  const unset = references.map(nameIn).filter((name) => !env[name]?.trim());
  const first = answers.baseUrl === "sandbox" ? "run" : "run --max-records 1000";
  const next = ["check", "plan", first].map((command) =>
    [programName, ...configFlag(file), command].join(" "),
  );
  const text = [
    plan.done(answers),
    ...notes.map((note) => `! ${note}`),
    ...(unset.length === 0
      ? []
      : [`! Set ${unset.join(" and ")} in the environment before the next command.`]),
    "Next:",
    ...next.map((line) => `  ${line}`),
  ];
  return { document: { file, notes, next, unset }, text: text.join("\n"), exitCode: 0 };
}

function refuseName(config: Config, name: string): void {
  const added = ["resolve", "validate", "enrich"].map((type) => `${type}_${name}`);
  const taken = config.jobs.find((job) => added.includes(job.name));
  let message = taken ? `would add the job ${taken.name}, which already exists` : null;
  if (Object.hasOwn(config.inputs, name)) message = "already exists";
  let hint = "choose another name";
  if (!NAME.test(name)) {
    message = "is not a valid name";
    hint = "use lowercase letters, digits and _, starting with a letter";
  }
  if (message === null) return;
  throw new FixConfigurationError("invalid_configuration", `The input ${name} can't be added.`, [
    { path: `inputs.${name}`, message, hint },
  ]);
}

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
