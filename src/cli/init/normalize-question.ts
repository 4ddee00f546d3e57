import { effectText } from "../input-profile.ts";
import { profileDraft, withAnswers } from "./draft.ts";
import type { Question } from "./question.ts";

/** Asks for `normalize`, with its effect on a sample. */
export const normalizeQuestion: Question = {
  text: async (draft) => {
    const profile = await profileDraft(draft);
    const isKnown = profile !== null && profile.effect.leftOut + profile.effect.changed > 0;
    const effect = isKnown ? `\n\`normalize: true\` ${effectText(profile.effect)}.\n` : "";
    return `${effect}Trim values, lower-case emails, leave out placeholders`;
  },
  proposal: () => "yes",
  given: ({ normalize }) => (normalize === undefined ? undefined : normalize ? "yes" : "no"),
  owns: ({ path }, { answers }) => path === `inputs.${answers.input}.normalize`,
  read: (reply, draft) =>
    /^(?:y(?:es)?|no?)$/iu.test(reply)
      ? { draft: withAnswers(draft, { normalize: /^y/iu.test(reply) }) }
      : { refused: "Answer yes or no." },
};
