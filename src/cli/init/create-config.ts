import { stat } from "node:fs/promises";
import { chooseDataDir } from "../../config/settings.ts";
import { renderConfig } from "../../config/template.ts";
import type { Context } from "../context.ts";
import { schemaFor } from "../editor-schema.ts";
import type { Outcome } from "../outcome.ts";
import { START, type Target } from "./draft.ts";
import { type InitFlags, isComplete } from "./flags.ts";
import { normalizeQuestion } from "./normalize-question.ts";
import { fieldsQuestion, keyColumnsQuestion, tableQuestion } from "./input-questions.ts";
import { keyQuestion, serviceQuestion, warehouseQuestion } from "./service-questions.ts";
import { outcomeOf, settle } from "./settle.ts";
import { fileExists, writeNewFile } from "./write-file.ts";

/** Writes a new configuration. */
export async function createConfig(context: Context, file: string, flags: InitFlags): Promise<Outcome> {
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
