import { getsSampleTables } from "../commands/sandbox.ts";
import { UsageError } from "../failure.ts";
import type { InputConfig } from "../../config/config.ts";
import { loadConfig } from "../../config/load-config.ts";
import type { ConfigAnswers } from "../../config/template.ts";
import type { Environment } from "../../config/variables.ts";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import { jobTypes } from "../../jobs/registry.ts";
import { inputSourceOf } from "../../jobs/sources.ts";
import { writtenTable } from "../../load/inputs/missing-table.ts";
import type { Browser, Table } from "../../load/inputs/postgres-profile.ts";
import { type InputProfile, profileOf } from "../../load/inputs/profile.ts";

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

export interface OpenedSource {
  /** `Postgres at HOST:PORT/DATABASE`. */
  readonly name: string;
  readonly browser: Browser;
  readonly tables: readonly Table[];
}

export interface Draft {
  readonly answers: ConfigAnswers;
  /** Values of environment variables typed instead of set; never written. */
  readonly typed: Environment;
  /** Database of the input; null if it isn't read. */
  readonly source: OpenedSource | null;
}

/** Draft with the defaults of all answers. */
export const START: Draft = {
  answers: {
    baseUrl: "sandbox",
    apiKey: null,
    warehouseUrl: "",
    allowInsecure: false,
    input: "customers",
    connection: null,
    table: "",
    key: ["id"],
    fields: { emails: ["email"] },
    normalize: false,
    rows: null,
  },
  typed: {},
  source: null,
};

export const withAnswers = (draft: Draft, answers: Partial<ConfigAnswers>): Draft => ({
  ...draft,
  answers: { ...draft.answers, ...answers },
});

/** Effect of a reply: the draft with it, or the reason why it is refused. */
export type Reading =
  | {
      readonly draft: Draft;
      /** True if the question is asked again, for another change. */
      readonly isOpen?: boolean;
    }
  | {
      readonly refused: string;
      /** Draft that an empty reply then accepts, and its description. */
      readonly otherwise?: {
        readonly draft: Draft;
        readonly text: string;
        /** True if only a person may accept it. */
        readonly needsConfirmation?: true;
      };
    };

type Refusal = Extract<Reading, { refused: string }>;

export interface Question {
  /** Text, with lines before it; null if the question doesn't arise. */
  readonly text: (draft: Draft) => string | null | Promise<string | null>;
  /** Reply that Enter accepts; empty for none. */
  readonly proposal: (draft: Draft) => string;
  /** Refusal without a terminal and flag, if no proposal may be taken then. */
  readonly unanswered?: (draft: Draft) => string;
  /** Notes on a proposal that was taken without asking. */
  readonly notes?: (draft: Draft) => readonly string[];
  readonly given: (flags: InitFlags) => string | undefined;
  /** True if the question decides the setting of a problem. */
  readonly owns: (problem: Problem, draft: Draft) => boolean;
  readonly read: (reply: string, draft: Draft) => Reading | Promise<Reading>;
}

/** Where replies come from, and what becomes of them. */
export interface Interview {
  readonly flags: InitFlags;
  /** Asks on a terminal, null at the end of the input; null to take flags, and proposals for the rest. */
  readonly ask: ((question: string) => Promise<string | null>) | null;
  readonly file: string;
  readonly env: Environment;
  readonly render: (answers: ConfigAnswers) => string;
}

/**
 * Answers all questions; throws the problems that the result then has. Its notes are doubts about answers; none on a
 * terminal, where the user has seen them.
 */
export async function answerAll(
  questions: readonly Question[],
  start: Draft,
  interview: Interview,
): Promise<{ readonly draft: Draft; readonly notes: readonly string[] }> {
  const notes: string[] = [];
  let draft = start;
  for (const question of questions) {
    const given = question.given(interview.flags);
    draft = interview.ask
      ? await askUntilValid(question, draft, interview, { given })
      : await takeAnswer(question, draft, given, notes);
  }
  for (;;) {
    const current = draft;
    const problems = await findProblems(interview, current);
    if (problems.length === 0) return { draft, notes };
    const wrong = questions.find((question) => problems.some((problem) => question.owns(problem, current)));
    if (!wrong || interview.ask === null) {
      throw new FixConfigurationError(
        "invalid_configuration",
        "This input doesn't make a valid configuration; nothing was written:",
        problems,
      );
    }
    const refusal = refusalOf(wrong, problems, current);
    draft = await askUntilValid(wrong, current, interview, { refusal });
  }
}

/** Takes a reply by flag, else the proposal, without asking. */
async function takeAnswer(
  question: Question,
  draft: Draft,
  given: string | undefined,
  notes: string[],
): Promise<Draft> {
  if ((await question.text(draft)) === null) return draft;
  const refuse = (reason: string) => new UsageError([...notes, reason].join("\n✗ "));
  if (given === undefined && question.unanswered) throw refuse(question.unanswered(draft));
  const reading = await question.read(given ?? question.proposal(draft), draft);
  let next: Draft;
  if ("draft" in reading) {
    next = reading.draft;
  } else {
    if (!reading.otherwise || reading.otherwise.needsConfirmation) throw refuse(reading.refused);
    next = reading.otherwise.draft;
    notes.push(reading.refused);
  }
  if (given === undefined) notes.push(...(question.notes?.(next) ?? []));
  return next;
}

/** Asks a question; one whose reply is refused is asked again with the reason, and nothing else is lost. */
async function askUntilValid(
  question: Question,
  start: Draft,
  interview: Interview,
  first: { readonly given?: string | undefined; readonly refusal?: Refusal | null },
): Promise<Draft> {
  let draft = start;
  let { given, refusal = null } = first;
  for (;;) {
    const text = await question.text(draft);
    if (text === null) return draft;
    const proposal = refusal?.otherwise?.text ?? question.proposal(draft);
    // Lists above the question are still on the screen.
    const shown = refusal === null ? text : `✗ ${refusal.refused}\n${text.split("\n").at(-1) ?? ""}`;
    const reply =
      given ?? (await interview.ask?.(`${shown}${proposal === "" ? "" : ` [${proposal}]`}: `)) ?? null;
    if (reply === null)
      throw new UsageError("The input ended before the last question; nothing was written.");
    given = undefined;
    if (reply === "" && refusal?.otherwise) return refusal.otherwise.draft;
    const reading = await question.read(reply === "" ? question.proposal(draft) : reply, draft);
    refusal =
      "refused" in reading
        ? reading
        : refusalOf(question, await findProblems(interview, reading.draft), reading.draft);
    if (refusal !== null || "refused" in reading) continue;
    draft = reading.draft;
    if (reading.isOpen !== true) return draft;
  }
}

/** Problems that a question decides; null for none. */
function refusalOf(question: Question, problems: readonly Problem[], draft: Draft): Refusal | null {
  const texts = problems
    .filter((problem) => question.owns(problem, draft))
    .map(({ path, message, hint }) => `${path}: ${message}${hint === undefined ? "" : `\n  → ${hint}`}`);
  return texts.length === 0 ? null : { refused: texts.join("\n✗ ") };
}

/** Returns the problems of a draft, found by the same code as in `check`. */
async function findProblems({ file, env, render }: Interview, draft: Draft): Promise<readonly Problem[]> {
  const { answers, typed } = draft;
  // Stand-ins for variables that aren't set yet.
  const standIns = {
    [nameIn(answers.apiKey ?? "")]: "stand-in",
    [nameIn(answers.warehouseUrl)]: "postgresql://stand-in@localhost/stand-in",
  };
  const given = Object.entries({ ...env, ...typed }).filter(([, value]) => value?.trim());
  try {
    const config = await loadConfig({
      file,
      text: render(answers),
      jobTypes,
      env: { ...standIns, ...Object.fromEntries(given) },
    });
    return await findProblemsOfInput(config.inputs[answers.input], draft);
  } catch (error) {
    if (!(error instanceof FixConfigurationError) || error.problems.length === 0) throw error;
    return error.problems.map(({ line: _line, ...problem }) => problem);
  }
}

/** True if the first run creates a missing table: against the sandbox, in the embedded database. */
export function getsSample({ answers }: Pick<Draft, "answers">): boolean {
  const { baseUrl, connection, warehouseUrl: url } = answers;
  return connection === null && getsSampleTables(baseUrl, url);
}

async function findProblemsOfInput(
  input: InputConfig | undefined,
  { answers, source }: Draft,
): Promise<readonly Problem[]> {
  if (source === null || input === undefined) return [];
  if (getsSample({ answers }) && tableOf(source, answers.table) === null) return [];
  // A database that went away in the meantime must not cost the answers; `check` comes next.
  return await source.browser
    .checkInput(await inputSourceOf(input, Object.keys(input.fields)))
    .catch(() => []);
}

/** Profiles a sample of a draft's input; null if it can't be read. */
export async function profileDraft({ source, answers }: Draft): Promise<InputProfile | null> {
  const table = source && tableOf(source, answers.table);
  if (!source || !table) return null;
  const { input: name, key, fields } = answers;
  const relation = { table: table.schema === "" ? [table.name] : [table.schema, table.name] };
  const reading = { connection: null, where: null, orderBy: null, normalize: false };
  // A view can be slow or fail; `check` comes next.
  const sample = await source.browser
    .sampleInput({ ...reading, name, relation, key, fields })
    .catch(() => null);
  return sample && profileOf(sample, false);
}

/** Number of a draft's input rows: the database's estimate, else counted; null if neither is possible. */
export async function rowsOf(draft: Draft): Promise<number | null> {
  const { source, answers } = draft;
  const estimate = source && tableOf(source, answers.table)?.rows;
  return estimate ?? (await profileDraft(draft))?.keys?.rows ?? null;
}

/** `${NAME}` → `NAME`. */
export function nameIn(reference: string): string {
  return reference.replace(/^\$\{(.*)\}$/, "$1");
}

/** Text of a table's name in the file. Files have no schema. */
export function tableText(table: Pick<Table, "schema" | "name">): string {
  return table.schema === "" ? table.name : writtenTable(table);
}

export function tableOf({ tables }: OpenedSource, name: string): Table | null {
  return tables.find((table) => tableText(table) === name) ?? null;
}
