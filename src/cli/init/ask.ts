import { UsageError } from "../failure.ts";
import { type Draft, findProblems, type Target } from "./draft.ts";
import type { Problem } from "../../errors.ts";

/** Effect of a reply: the draft with it, or the reason why it is refused. */
export type Reading =
  | {
      readonly draft: Draft;
      /** True if the question is asked again, for another change. */
      readonly isOpen?: boolean;
    }
  | Refusal;

/** Reason why a reply is refused. */
interface Refusal {
  readonly refused: string;
  /** Draft that an empty reply then accepts, and its description. */
  readonly otherwise?: {
    readonly draft: Draft;
    readonly text: string;
    /** True if only a person may accept it. */
    readonly needsConfirmation?: true;
  };
}

/** One question of `init`. */
export interface Question {
  /** Text, with lines before it; null if the question doesn't arise. */
  readonly text: (draft: Draft) => string | null | Promise<string | null>;
  /** Reply that Enter accepts; empty for none. */
  readonly proposal: (draft: Draft) => string;
  /** Refusal without a terminal and flag, if no proposal may be taken then. */
  readonly unanswered?: (draft: Draft) => string;
  /** Notes on a proposal that was taken without asking. */
  readonly notes?: (draft: Draft) => readonly string[];
  /** Reply by flag. */
  readonly given: (flags: InitFlags) => string | undefined;
  /** True if the question decides the setting of a problem. */
  readonly owns: (problem: Problem, draft: Draft) => boolean;
  readonly read: (reply: string, draft: Draft) => Reading | Promise<Reading>;
}

/** Asks on a terminal; null at the end of the input. */
type Ask = (question: string) => Promise<string | null>;

/** Asks all questions; one whose reply is refused is asked again with the reason, and nothing else is lost. */
export async function askAll(
  questions: readonly Question[],
  start: Draft,
  options: { readonly ask: Ask; readonly flags: InitFlags; readonly target: Target },
): Promise<Draft> {
  let draft = start;
  for (const question of questions) {
    draft = await askOne(question, draft, { ...options, given: question.given(options.flags) });
  }
  for (;;) {
    const problems = await findProblems(options.target, draft);
    const current = draft;
    const wrong = questions.find((question) => problems.some((problem) => question.owns(problem, current)));
    if (!wrong) return draft;
    const reason = reasonsFor(wrong, problems, current) ?? "";
    draft = await askOne(wrong, draft, { ...options, given: undefined, reason });
  }
}

async function askOne(
  question: Question,
  start: Draft,
  options: {
    readonly ask: Ask;
    readonly target: Target;
    readonly given: string | undefined;
    /** Reason why the question is asked again. */
    readonly reason?: string;
  },
): Promise<Draft> {
  let draft = start;
  let { given } = options;
  let refused: Refusal | null = options.reason === undefined ? null : { refused: options.reason };
  for (;;) {
    const text = await question.text(draft);
    if (text === null) return draft;
    const proposal = refused?.otherwise?.text ?? question.proposal(draft);
    // Lists above the question are still on the screen.
    const shown = refused === null ? text : `✗ ${refused.refused}\n${text.split("\n").at(-1) ?? ""}`;
    const typed: string | null =
      given ?? (await options.ask(`${shown}${proposal === "" ? "" : ` [${proposal}]`}: `));
    if (typed === null)
      throw new UsageError("The input ended before the last question; nothing was written.");
    given = undefined;
    if (typed === "" && refused?.otherwise) return refused.otherwise.draft;
    const reading = await question.read(typed === "" ? question.proposal(draft) : typed, draft);
    if ("refused" in reading) {
      refused = reading;
      continue;
    }
    const problems = await findProblems(options.target, reading.draft);
    const reasons = reasonsFor(question, problems, reading.draft);
    refused = reasons === null ? null : { refused: reasons };
    if (refused) continue;
    draft = reading.draft;
    if (reading.isOpen !== true) return draft;
  }
}

/** Problems that a question decides, as text; null for none. */
function reasonsFor(question: Question, problems: readonly Problem[], draft: Draft): string | null {
  const own = problems.filter((problem) => question.owns(problem, draft));
  const texts = own.map(
    ({ path, message, hint }) => `${path}: ${message}${hint === undefined ? "" : `\n  → ${hint}`}`,
  );
  return texts.length === 0 ? null : texts.join("\n✗ ");
}

/** A draft with all answers. */
export interface Settled {
  readonly draft: Draft;
  /** Doubts about answers; none on a terminal, where the user has seen them. */
  readonly notes: readonly string[];
}

/** Takes replies from flags, and proposals for the others, without asking. */
export async function answerAll(
  questions: readonly Question[],
  start: Draft,
  flags: InitFlags,
): Promise<Settled> {
  let draft = start;
  const notes: string[] = [];
  for (const question of questions) {
    if ((await question.text(draft)) === null) continue;
    const given = question.given({ normalize: false, ...flags });
    if (given === undefined && question.unanswered) {
      throw new UsageError([...notes, question.unanswered(draft)].join(" "));
    }
    const reading = await question.read(given ?? question.proposal(draft), draft);
    if ("draft" in reading) {
      draft = reading.draft;
    } else if (reading.otherwise && !reading.otherwise.needsConfirmation) {
      draft = reading.otherwise.draft;
      notes.push(reading.refused);
    } else {
      throw new UsageError([...notes, reading.refused].join(" "));
    }
    if (given === undefined) notes.push(...(question.notes?.(draft) ?? []));
  }
  return { draft, notes };
}

/** Flags of `init`. */
export interface InitFlags {
  readonly baseUrl?: string;
  readonly apiKeyEnv?: string;
  readonly warehouseUrlEnv?: string;
  readonly addInput?: string;
  readonly connection?: string;
  readonly table?: string;
  readonly input?: string;
  readonly key?: string;
  readonly field?: readonly string[];
  readonly normalize?: boolean;
}

/** True if the flags leave nothing to propose, so that the database isn't needed. */
export function isComplete({ table, key, field }: InitFlags): boolean {
  return table !== undefined && key !== undefined && field !== undefined;
}

/** Splits a comma-separated list. */
export function listOf(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** Reads `emails=email, work_email`; null if it isn't a field with columns. */
export function readMapping(text: string): readonly [field: string, columns: readonly string[]] | null {
  const at = text.indexOf("=");
  return at < 1 ? null : [text.slice(0, at).trim(), listOf(text.slice(at + 1))];
}

/** Mapping of all `--field` flags; unknown fields are reported when the file is validated. */
export function mappingOf(flags: readonly string[]): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    flags.map((flag) => {
      const mapping = readMapping(flag);
      if (mapping === null || mapping[1].length === 0) {
        throw new UsageError(
          `--field ${flag}: write the field and its column(s), such as emails=email,work_email.`,
        );
      }
      return mapping;
    }),
  );
}
