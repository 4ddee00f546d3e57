import { stat } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { FixConfigurationError, type Problem } from "../errors.ts";
import { countText } from "../figures.ts";
import { buildConfig, type Config } from "./config.ts";
import { explainIssues } from "./hints.ts";
import { createProblems, pathOf, type Problems, textOf } from "./problems.ts";
import {
  checkCycles,
  checkReferences,
  findReferences,
  warnOfDisabledSources,
  type Written,
} from "./references.ts";
import { checkRules, dropKeys, warnOfMistakes } from "./rules.ts";
import { type ConfigDocument, documentSchemaOf } from "./schema/document.ts";
import type { JobDeclaration } from "./schema/jobs.ts";
import { fillDefaults, isMapping, mapTexts, type Schema, valueAt } from "./schema/settings.ts";
import { isReadByOthers, readSmallFile, resolveSecrets } from "./secrets.ts";
import { chooseDataDir, chooseLogLevel, chooseTimes } from "./settings.ts";
import { type Environment, expand } from "./variables.ts";
import { readYaml } from "./yaml.ts";

export interface LoadOptions {
  readonly file: string;
  /** Content of a file that isn't written yet. */
  readonly text?: string;
  readonly jobTypes: readonly JobDeclaration[];
  readonly env: Environment;
  /** Value of `--log-level`. */
  readonly logLevel?: string | undefined;
}

/**
 * Reads and validates the configuration. Throws one FixConfigurationError with all problems, each with path, line and hint.
 * Problems never repeat a value of the environment, nor one of the file that may be a secret.
 */
export async function loadConfig({
  file,
  text,
  jobTypes,
  env,
  logLevel: flag,
}: LoadOptions): Promise<Config> {
  const path = resolve(file);
  const folder = dirname(path);
  const schema = documentSchemaOf(jobTypes);
  const source = readYaml(text ?? (await readConfigFile(path)), basename(path));
  if (!source.isReadable) throw failure(path, source.problems);

  const problems = createProblems(basename(path), source.lineOf);
  const warnings = createProblems(basename(path), source.lineOf);
  for (const problem of source.problems) problems.addProblem(problem);
  if (!isMapping(source.value)) {
    const message = source.value === null ? "is empty" : "must be a mapping of keys to values";
    problems.add([], message, "see config.example.yaml, or create one with `person-etl init`");
    throw failure(path, problems.list());
  }

  const tree = expandTexts(schema, dropKeys(source.value, warnings, problems), env, problems);
  const parsed = schema.safeParse(tree);
  if (!parsed.success) explainIssues(schema, tree, source.value, parsed.error.issues, problems);
  const written: Written = {
    tree,
    source: source.value,
    references: findReferences(schema, tree),
    jobTypes,
  };
  checkRules(written, problems);
  checkReferences(written, problems);
  checkCycles(written, problems);

  const logLevel = chooseLogLevel(flag, env, parsed.data?.logLevel ?? "info", problems);
  const times = chooseTimes(env, problems);
  const secrets = await resolveSecrets({ tree, folder, env, problems, warnings });
  const found = problems.list();
  if (!parsed.success || found.length > 0) throw failure(path, found);
  warnOfDisabledSources(written, warnings);
  warnOfMistakes(written, warnings);
  await warnOfSharedKeys(parsed.data, folder, warnings);
  warnOfEmulator(parsed.data, env, warnings);
  return buildConfig(parsed.data, written.references, secrets, {
    file: path,
    warnings: warnings.list(),
    logLevel,
    ...times,
    lineOf: (text) => {
      const at = pathOf(text);
      return valueAt(source.value, at) === undefined ? null : source.lineOf(at);
    },
    dataDir: chooseDataDir(env, path, parsed.data.dataDir),
  });
}

/** Reads the settings of a valid file with defaults. Variables and references stay as written, credentials are hidden. */
export async function readSettings({
  file,
  jobTypes,
}: Pick<LoadOptions, "file" | "jobTypes">): Promise<object> {
  const name = basename(file);
  const source = readYaml(await readConfigFile(file), name);
  const ignored = createProblems(name, source.lineOf);
  const schema = documentSchemaOf(jobTypes);
  const tree = Object(fillDefaults(schema, dropKeys(Object(source.value), ignored, ignored)));
  return mapTexts(schema, tree, (text, { expectation }) =>
    expectation?.isSecret ? text : hideCredentials(text),
  );
}

/** Hides users, passwords and queries of addresses, such as signed ones, and what looks like an assignment of a secret. */
function hideCredentials(text: string): string {
  return text
    .replaceAll(/(\w:\/\/)[^\s'"]*@/gu, "$1***@")
    .replaceAll(/(\w:\/\/[^\s?'"]+\?)[^\s'"]+/gu, "$1***")
    .replaceAll(/[^\s:/@'"]+:[^\s/@'"]+@/gu, "***@")
    .replaceAll(SECRET_VALUE, "$1***");
}

const SECRET_VALUE =
  /((?:password|passwd|pwd|secret|token|apikey|api_key)\s*=>?\s*)(?:'(?:[^']|'')*'|"[^"]*"|\S+)/giu;

function failure(file: string, problems: readonly Problem[]): FixConfigurationError {
  const message = `${countText(problems.length, "problem")} in ${file}`;
  return new FixConfigurationError("invalid_configuration", message, problems);
}

/**
 * Replaces `${NAME}` in all texts, except where the schema expects a secret: these remain references, so that no secret is
 * ever part of the tree. Text at a path unknown to the schema remains, too; it is refused anyway.
 */
function expandTexts(root: Schema, tree: object, env: Environment, problems: Problems): object {
  return mapTexts(root, tree, (text, { path, expectation }) => {
    if (expectation?.isSecret || !text.includes("${")) return text;
    if (expectation?.isSql && text.replaceAll("$${", "").includes("${")) {
      const message = "contains ${…}, which SQL can't: the variable would become part of the statement";
      problems.add(path, message, "write the value itself, or keep it in a table or view");
      return text;
    }
    const expanded = expand(text, env);
    if ("text" in expanded) return expanded.text;
    problems.add(path, expanded.message, expanded.hint);
    return text;
  });
}

/** Limit for files passed by mistake, for which the parser could take minutes. */
const MAX_KIB = 128;

/** Reads the configuration file; throws if it is unreadable. */
async function readConfigFile(file: string): Promise<string> {
  const found = await readSmallFile(file, MAX_KIB);
  if ("text" in found) return found.text;
  const { reason, code } = found;
  if (code === "ENOENT" || code === "ENOTDIR") {
    const message = `No configuration at ${file}; create one with \`person-etl init\`, or pass --config`;
    throw new FixConfigurationError("no_configuration", message);
  }
  const problem = { path: basename(file), message: reason, hint: "pass the right file with --config" };
  throw new FixConfigurationError("unreadable_configuration", `${file} ${reason}`, [problem]);
}

type Stores = Pick<ConfigDocument, "connections" | "publish">;

/** Entries of both sections with other databases, with their paths. */
function storesOf(document: Stores) {
  return (["connections", "publish"] as const).flatMap((section) =>
    Object.entries(document[section]).map(([name, entry]) => ({ path: [section, name], entry })),
  );
}

/** Warns of service account keys that other users can read; a missing file is reported when it is used. */
async function warnOfSharedKeys(document: Stores, folder: string, warnings: Problems): Promise<void> {
  for (const { path, entry } of storesOf(document)) {
    if (!("credentials" in entry) || !entry.credentials.startsWith("file:")) continue;
    const found = await stat(resolve(folder, entry.credentials.slice("file:".length))).catch(() => null);
    if (found === null || !isReadByOthers(found)) continue;
    warnings.add([...path, "credentials"], "names a file that other users can read", "chmod 600 it");
  }
}

/** Warns once of an emulator in place of BigQuery, which other programs' variable may choose by mistake. */
function warnOfEmulator(document: Stores, env: Environment, warnings: Problems): void {
  if ((env["BIGQUERY_EMULATOR_HOST"] ?? "") === "") return;
  const [first, ...others] = storesOf(document).flatMap(({ path, entry }) =>
    entry.type === "bigquery" && entry.apiEndpoint === null ? [path] : [],
  );
  if (first === undefined) return;
  const also = others.length === 0 ? "" : `, and so does ${others.map(textOf).join(", ")}`;
  const message = `uses the emulator in BIGQUERY_EMULATOR_HOST instead of Google's service${also}: without credentials, and unencrypted unless its address begins with https://`;
  warnings.add(first, message, "unset the variable to use Google's service");
}
