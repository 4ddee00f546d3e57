import { readFile } from "node:fs/promises";
import { addInputToText } from "../../config/add-input.ts";
import type { Config } from "../../config/config.ts";
import { NAME } from "../../config/schema/values.ts";
import { FixConfigurationError } from "../../errors.ts";
import type { Context } from "../context.ts";
import { UsageError } from "../failure.ts";
import { openConfig } from "../open-config.ts";
import type { Outcome } from "../outcome.ts";
import { type Draft, START, withAnswers } from "./draft.ts";
import { type InitFlags, isComplete } from "./flags.ts";
import { normalizeQuestion } from "./normalize-question.ts";
import { fieldsQuestion, keyColumnsQuestion, tableQuestion } from "./input-questions.ts";
import { type Opening, openEmbeddedSource, openPostgresSource } from "./open-source.ts";
import type { Question } from "./question.ts";
import { readingOf } from "./service-questions.ts";
import { outcomeOf, settle } from "./settle.ts";
import { replaceText } from "./write-file.ts";

/** Adds an input and its jobs to an existing configuration. */
export async function addInput(
  context: Context,
  file: string,
  flags: InitFlags,
  name: string,
): Promise<Outcome> {
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
    throw new FixConfigurationError(
      "invalid_configuration",
      `${file} can't be extended, because \`inputs\` or \`jobs\` is written in braces.`,
      [
        {
          path: "inputs",
          message: "is written in braces",
          hint: "write one entry per line, without { }, and run this again",
        },
      ],
    );
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
