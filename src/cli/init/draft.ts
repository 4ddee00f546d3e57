import type { InputConfig } from "../../config/config.ts";
import { loadConfig } from "../../config/load-config.ts";
import type { Environment } from "../../config/variables.ts";
import type { ConfigAnswers } from "../../config/template.ts";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import { inputSourceOf } from "../../jobs/sources.ts";
import { jobTypes } from "../../jobs/registry.ts";
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
