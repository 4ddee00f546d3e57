import { countText } from "../figures.ts";
import { readFile, stat } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { type Config, buildConfig } from "./config.ts";
import { explainIssues, reportIndentation } from "./hints.ts";
import {
  checkCycles,
  checkNames,
  checkReferences,
  findReferences,
  warnOfDisabledSources,
  type Written,
} from "./references.ts";
import { createProblems, type Path, type Problems } from "./problems.ts";
import { dropKeys, refuseOtherWarehouses, warnOfSharedColumns, checkRules } from "./rules.ts";
import { type ConfigDocument, documentSchemaOf } from "./schema/document.ts";
import type { JobDeclaration } from "./schema/jobs.ts";
import { expectationOf, type Schema, schemaAt, isMapping } from "./schema/settings.ts";
import { resolveSecrets } from "./secrets.ts";
import { chooseDataDir, chooseTimes, chooseLogLevel, type Overrides } from "./settings.ts";
import { type Environment, expand } from "./variables.ts";
import { readYaml } from "./yaml.ts";
import { codeOf, FixConfigurationError, type Problem } from "../errors.ts";

/** Inputs of {@link loadConfig}. */
export interface LoadOptions {
  readonly file: string;
  /** Content of a file that isn't written yet. */
  readonly text?: string;
  /** All job types of this version. */
  readonly jobTypes: readonly JobDeclaration[];
  readonly env: Environment;
  readonly overrides?: Overrides;
}

/**
 * Reads and validates the configuration. Throws one FixConfigurationError with all problems, each with path, line and hint.
 * Problems never repeat a value of the file or the environment.
 */
export async function loadConfig({
  file,
  text,
  jobTypes,
  env,
  overrides = {},
}: LoadOptions): Promise<Config> {
  const path = resolve(file);
  const schema = documentSchemaOf(jobTypes);
  const source = readYaml(text ?? (await readConfigFile(path)), basename(path));
  const { syntax } = source;
  if (!syntax.isReadable) throw failure(path, syntax.problems);

  const problems = createProblems(basename(path), source.lineOf);
  const warnings = createProblems(basename(path), source.lineOf);
  for (const problem of syntax.problems) problems.addProblem(problem);
  const placed = isMapping(source.value) ? reportIndentation(schema, source, source.value, problems) : null;
  for (const { path: at, complaint } of source.complaints)
    problems.add(at, complaint.message, complaint.hint);
  if (placed === null) {
    const message = source.value === null ? "is empty" : "must be a mapping of keys to values";
    problems.add([], message, "see config.example.yaml, or create one with `person-etl init`");
    throw failure(path, problems.list());
  }

  const expanded = expandTree(schema, dropKeys(placed, warnings), env, problems);
  const tree = refuseOtherWarehouses(expanded, problems);
  const parsed = schema.safeParse(tree);
  const written: Written = { tree: expanded, references: findReferences(schema, tree), jobTypes };
  checkNames(written, problems);
  checkRules(written, problems);
  checkReferences(written, problems);
  checkCycles(written, problems);
  if (!parsed.success) explainIssues(schema, tree, parsed.error.issues, problems);

  const logLevel = chooseLogLevel(overrides, env, parsed.data?.logLevel ?? "info", problems);
  const times = chooseTimes(env, problems);
  const secrets = await resolveSecrets({ tree, folder: dirname(path), env, problems, warnings });
  const found = problems.list();
  if (!parsed.success || found.length > 0) {
    throw failure(path, found);
  }
  warnOfDisabledSources(written, warnings);
  warnOfSharedColumns(written, warnings);
  await warnOfSharedKeys(parsed.data, dirname(path), warnings);
  return buildConfig(parsed.data, written.references, secrets, {
    file: path,
    warnings: warnings.list(),
    logLevel,
    ...times,
    dataDir: chooseDataDir(overrides, env, path, parsed.data.dataDir),
  });
}

function failure(file: string, problems: readonly Problem[]): FixConfigurationError {
  const message = `${countText(problems.length, "problem")} in ${file}`;
  return new FixConfigurationError("invalid_configuration", message, problems);
}

/**
 * Replaces `${NAME}` in all texts, except where the schema expects a secret: these remain references, so that no secret is
 * ever part of the tree.
 */
function expandTree(root: Schema, tree: object, env: Environment, problems: Problems): object {
  function visit(value: unknown, path: Path): unknown {
    if (Array.isArray(value)) return value.map((item, position) => visit(item, [...path, position]));
    if (typeof value === "object" && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, visit(item, [...path, key])]),
      );
    }
    if (typeof value !== "string" || !value.includes("${") || !isExpanded(path)) return value;
    const schema = schemaAt(root, path, tree);
    const isSql = schema !== null && expectationOf(schema)?.isSql === true;
    if (isSql && value.replaceAll("$${", "").includes("${")) {
      const message = "contains ${…}, which SQL can't: the variable would become part of the statement";
      problems.add(path, message, "write the value itself, or keep it in a table or view");
      return value;
    }
    const expanded = expand(value, env);
    if ("text" in expanded) return expanded.text;
    problems.add(path, expanded.message, expanded.hint);
    return value;
  }
  /** Text at a path unknown to the schema is not expanded; it is rejected anyway. */
  function isExpanded(path: Path): boolean {
    const schema = schemaAt(root, path, tree);
    return schema !== null && expectationOf(schema)?.isSecret !== true;
  }
  return Object(visit(tree, []));
}

/** Limit for files passed by mistake, for which the parser could take minutes. */
const MAX_BYTES = 128 * 1024;

/** Reads the configuration file; throws if it is unreadable. */
async function readConfigFile(file: string): Promise<string> {
  const bytes = await readBytes(file);
  const text = decode(bytes);
  if (text !== null) return text;
  const [first, second] = bytes;
  const isUtf16 = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  throw failure(file, [
    {
      path: basename(file),
      message: "is not UTF-8 text",
      line: isUtf16 ? 1 : lineOfFirstBadByte(bytes),
      hint: isUtf16 ? "it is UTF-16: save it as UTF-8" : "save it as UTF-8",
    },
  ]);
}

async function readBytes(file: string): Promise<Buffer> {
  try {
    const { size } = await stat(file);
    if (size > MAX_BYTES) {
      throw failure(file, [
        {
          path: basename(file),
          message: "is larger than 128 KiB, the maximum size of a configuration",
          hint: "pass the right file with --config",
        },
      ]);
    }
    return await readFile(file);
  } catch (error) {
    if (error instanceof FixConfigurationError) throw error;
    throw unreadable(file, error);
  }
}

function unreadable(file: string, error: unknown): FixConfigurationError {
  const code = codeOf(error);
  if (code === "ENOENT" || code === "ENOTDIR") {
    const message = `no configuration at ${file}; create one with \`person-etl init\`, or pass --config`;
    return new FixConfigurationError("no_configuration", message, [], { cause: error });
  }
  const reason =
    code === "EISDIR"
      ? "is a folder"
      : code === "EACCES"
        ? "is not readable by this user"
        : `can't be read (${code})`;
  const problem = { path: basename(file), message: reason, hint: "pass the file with --config" };
  return new FixConfigurationError("unreadable_configuration", `${file} ${reason}`, [problem], {
    cause: error,
  });
}

function decode(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** A newline byte never occurs inside a UTF-8 character, so each line can be decoded separately. */
function lineOfFirstBadByte(bytes: Uint8Array): number {
  let line = 1;
  for (let start = 0; start < bytes.length; line++) {
    const end = bytes.indexOf(0x0a, start);
    if (decode(bytes.subarray(start, end === -1 ? bytes.length : end)) === null) return line;
    if (end === -1) break;
    start = end + 1;
  }
  return line;
}

/** Warns of service account keys that other users can read; a missing file is reported when it is used. */
async function warnOfSharedKeys(
  document: Pick<ConfigDocument, "connections" | "publish">,
  folder: string,
  warnings: Problems,
): Promise<void> {
  for (const section of ["connections", "publish"] as const) {
    for (const [name, entry] of Object.entries(document[section])) {
      if (!("credentials" in entry) || !entry.credentials.startsWith("file:")) continue;
      const found = await stat(resolve(folder, entry.credentials.slice("file:".length))).catch(() => null);
      if (found === null || process.platform === "win32" || (found.mode & 0o004) === 0) continue;
      const message = "names a file that other users can read";
      warnings.add([section, name, "credentials"], message, "chmod 600 it");
    }
  }
}
