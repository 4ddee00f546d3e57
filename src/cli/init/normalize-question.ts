import type { NormalizationSample } from "../../load/inputs/sample-normalization.ts";
import { count, counted } from "../figures.ts";
import { type Draft, tableOf } from "./draft.ts";
import type { Question } from "./question.ts";

/** Asks for `normalize`, with its effect on a sample. */
export const normalizeQuestion: Question = {
  text: async (draft) =>
    `${effectOf(await sample(draft))}Clean values before they are sent (normalize: true)?`,
  proposal: () => "yes",
  given: ({ normalize }) => (normalize === undefined ? undefined : normalize ? "yes" : "no"),
  owns: ({ path }, { answers }) => path === `inputs.${answers.input}.normalize`,
  read: (reply, draft) =>
    /^(?:y(?:es)?|no?)$/iu.test(reply)
      ? { draft: { ...draft, answers: { ...draft.answers, normalize: /^y/iu.test(reply) } } }
      : { refused: "Answer yes or no." },
};

/** Null if the table can't be read. */
async function sample({ source, answers }: Draft): Promise<NormalizationSample | null> {
  const table = source && tableOf(source, answers.table);
  if (!source || !table) return null;
  const { input: name, key, fields } = answers;
  const relation = { table: [table.schema, table.name] };
  const reading = { connection: null, where: null, orderBy: null, cursor: null, normalize: false };
  try {
    return await source.browser.sampleNormalization({ ...reading, name, relation, key, fields });
  } catch {
    // A view can be slow or fail; the question does without figures.
    return null;
  }
}

function effectOf(found: NormalizationSample | null): string {
  if (found === null || found.rows === 0) return "";
  const { rows, dropped, cleaned } = found;
  const first = rows === 1 ? "In the only row" : `In the first ${count(rows)} rows`;
  return (
    `\n${first}, that leaves out ${counted(dropped, "placeholder or malformed value", "placeholders and malformed values")}` +
    `\nand trims or lower-cases ${count(cleaned)}.\n`
  );
}
