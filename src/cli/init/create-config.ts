import { stat } from "node:fs/promises";
import { chooseDataDir } from "../../config/settings.ts";
import { renderConfig } from "../../config/template.ts";
import type { Context } from "../context.ts";
import { schemaFor } from "../editor-schema.ts";
import type { Outcome } from "../outcome.ts";
import type { Draft, Target } from "./draft.ts";
import type { InitFlags } from "./flags.ts";
import { normalizeQuestion } from "./normalize-question.ts";
import { cursorQuestion, fieldsQuestion, keyColumnsQuestion, tableQuestion } from "./input-questions.ts";
import { keyQuestion, serviceQuestion, warehouseQuestion } from "./service-questions.ts";
import { outcomeOf, settle } from "./settle.ts";
import { fileExists, writeNewFile } from "./write-file.ts";

const START: Draft = {
  answers: {
    baseUrl: "sandbox",
    apiKey: null,
    warehouseUrl: "",
    allowInsecure: false,
    input: "customers",
    connection: null,
    table: "",
    key: ["id"],
    cursor: null,
    fields: { emails: ["email"] },
    normalize: false,
  },
  typed: {},
  source: null,
};

/** Writes a new configuration. */
export async function createConfig(context: Context, file: string, flags: InitFlags): Promise<Outcome> {
  if (await stat(file).catch(() => null)) throw fileExists(file);
  // Flags that leave nothing to propose don't need the database.
  const isComplete = flags.table !== undefined && flags.key !== undefined && flags.field !== undefined;
  const dataDir = chooseDataDir({}, context.env, file, ".person-etl");
  const questions = [
    serviceQuestion,
    keyQuestion,
    warehouseQuestion(context, dataDir, isComplete),
    tableQuestion(flags.input),
    keyColumnsQuestion,
    cursorQuestion,
    fieldsQuestion,
    normalizeQuestion,
  ];
  const schema = schemaFor(file);
  const render: Target["render"] = (answers) =>
    renderConfig(
      { ...answers, warehouseUrl: answers.warehouseUrl || "embedded", table: answers.table || "t" },
      schema,
    );
  const draft = await settle(context, questions, START, { file, env: context.env, render }, flags);
  await writeNewFile(file, render(draft.answers));
  return outcomeOf(
    context,
    file,
    draft,
    `✓ Wrote ${file}: input ${draft.answers.input} of ${draft.answers.table}.`,
  );
}
