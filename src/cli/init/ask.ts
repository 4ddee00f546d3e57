import { UsageError } from "../failure.ts";
import type { InputConfig } from "../../config/config.ts";
import { loadConfig } from "../../config/load-config.ts";
import type { ConfigAnswers } from "../../config/template.ts";
import type { Environment } from "../../config/variables.ts";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import { jobTypes } from "../../jobs/registry.ts";
import { inputSourceOf } from "../../jobs/sources.ts";
import type { Browser, Table } from "../../load/inputs/postgres-profile.ts";
import { type InputProfile, profileOf } from "../../load/inputs/profile.ts";

/** A database whose tables can be listed. */
export interface OpenedSource {
  /** `Postgres at HOST:PORT/DATABASE`. */
  readonly name: string;
  readonly browser: Browser;
  readonly tables: readonly Table[];
}

/** Answers so far. */
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
  },
  typed: {},
  source: null,
};

/** Draft with some answers replaced. */
export const withAnswers = (draft: Draft, answers: Partial<ConfigAnswers>): Draft => ({
  ...draft,
  answers: { ...draft.answers, ...answers },
});

/** File to be written. */
export interface Target {
  readonly file: string;
  readonly env: Environment;
  /** Renders the whole file. */
  readonly render: (answers: ConfigAnswers) => string;
}

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

/** Returns the problems of a draft, found by the same code as in `check`. */
export async function findProblems({ file, env, render }: Target, draft: Draft): Promise<readonly Problem[]> {
  const { answers, typed } = draft;
  const given = { ...env, ...typed };
  try {
    const options = { file, text: render(answers), jobTypes, env: { ...given, ...standIns(answers, given) } };
    return await findProblemsOfInput((await loadConfig(options)).inputs[answers.input], draft);
  } catch (error) {
    if (!(error instanceof FixConfigurationError) || error.problems.length === 0) throw error;
    return error.problems.map(({ line: _line, ...problem }) => problem);
  }
}

async function findProblemsOfInput(
  input: InputConfig | undefined,
  { answers, source }: Draft,
): Promise<readonly Problem[]> {
  // The first run against the sandbox creates a missing table.
  const isSample =
    answers.baseUrl === "sandbox" && source !== null && tableOf(source, answers.table) === null;
  if (source === null || input === undefined || isSample) return [];
  try {
    return await source.browser.checkInput(await inputSourceOf(input, Object.keys(input.fields)));
  } catch {
    // A database that went away in the meantime must not cost the answers; `check` comes next.
    return [];
  }
}

/** Profiles a sample of a draft's input; null if it can't be read. */
export async function profileDraft({ source, answers }: Draft): Promise<InputProfile | null> {
  const table = source && tableOf(source, answers.table);
  if (!source || !table) return null;
  const { input: name, key, fields } = answers;
  const relation = { table: [table.schema, table.name] };
  const reading = { connection: null, where: null, orderBy: null, normalize: false };
  try {
    return profileOf(await source.browser.sampleInput({ ...reading, name, relation, key, fields }), false);
  } catch {
    // A view can be slow or fail; `check` comes next.
    return null;
  }
}

/** Values for variables that aren't set yet. */
function standIns({ apiKey, warehouseUrl }: ConfigAnswers, env: Environment): Record<string, string> {
  const values: Record<string, string> = {};
  if (apiKey !== null) values[nameIn(apiKey)] = "stand-in";
  values[nameIn(warehouseUrl)] = "postgresql://stand-in@localhost/stand-in";
  return Object.fromEntries(Object.entries(values).filter(([name]) => !env[name]?.trim()));
}

/** `${NAME}` → `NAME`. */
export function nameIn(reference: string): string {
  return reference.replace(/^\$\{(.*)\}$/, "$1");
}

function quote(part: string): string {
  return /^[\p{L}_][\p{L}\p{N}_$]*$/u.test(part) ? part : `"${part.replaceAll('"', '""')}"`;
}

/** Text of a table's name in the file; unusual parts are quoted. */
export function tableText({ schema, name }: Pick<Table, "schema" | "name">): string {
  return `${quote(schema)}.${quote(name)}`;
}

/** Finds a table by its full name. */
export function tableOf({ tables }: OpenedSource, name: string): Table | null {
  return tables.find((table) => tableText(table) === name) ?? null;
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
