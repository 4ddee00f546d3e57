import { basename, dirname, resolve } from "node:path";
import { FixConfigurationError, type Problem } from "../errors.ts";
import { buildConfig } from "./build-config.ts";
import type { Config } from "./config.ts";
import { expandTree } from "./expand-tree.ts";
import { explainIssues } from "./explain-issues.ts";
import { reportIndentation } from "./indentation.ts";
import { createProblems, type Problems } from "./problems.ts";
import { readConfigFile } from "./read-file.ts";
import type { Environment } from "./references.ts";
import { createSecretResolver, resolveSecrets } from "./resolve-secrets.ts";
import { findReferences } from "./part-references.ts";
import { dropKeys } from "./rules/dropped-keys.ts";
import { checkInputs, warnOfSharedColumns } from "./rules/inputs.ts";
import { checkBudgets, checkJobs } from "./rules/jobs.ts";
import { checkNames } from "./rules/names.ts";
import { checkPrices } from "./rules/prices.ts";
import { checkPublish } from "./rules/publish.ts";
import { checkHttp, checkService, checkWarehouse, refuseOtherWarehouses } from "./rules/places.ts";
import { checkCycles, checkReferences, warnOfDisabledSources } from "./rules/references.ts";
import { documentSchemaOf, type ConfigDocument } from "./schema/document.ts";
import type { JobDeclaration } from "./schema/jobs.ts";
import { chooseDataDir, chooseLockLife, chooseLogLevel, type Overrides } from "./settings.ts";
import { readWrittenFile } from "./written-file.ts";
import { readYaml } from "./yaml-source.ts";
import { stat } from "node:fs/promises";

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
  if (!syntax.isReadable) throw failure(path, syntax.problems, "invalid_configuration");

  const problems = createProblems(basename(path), source.lineOf);
  const warnings = createProblems(basename(path), source.lineOf);
  for (const problem of syntax.problems) problems.addProblem(problem);
  const placed = isMapping(source.value) ? reportIndentation(schema, source, source.value, problems) : null;
  for (const { path: settingPath, complaint } of source.complaints) problems.add(settingPath, complaint);
  if (placed === null) throw failure(path, notMapping(source.value, problems), "invalid_configuration");

  const expanded = expandTree(schema, dropKeys(placed, warnings), env, problems);
  const written = readWrittenFile(expanded);
  const tree = refuseOtherWarehouses(expanded, written, problems);
  const parsed = schema.safeParse(tree);
  const references = findReferences(schema, tree);
  // Rules come first: their messages about an unknown key or a missing value are more specific than the schema's.
  checkNames(written, problems);
  checkService(written, problems);
  checkWarehouse(written, problems);
  checkHttp(written, problems);
  checkPublish(written, problems);
  checkPrices(written, jobTypes, problems);
  checkInputs(written, problems);
  checkBudgets(written, problems);
  checkJobs(written, jobTypes, problems);
  checkReferences(written, references, jobTypes, problems);
  checkCycles(references, problems);
  if (!parsed.success) explainIssues(schema, tree, parsed.error.issues, problems);

  const logLevel = chooseLogLevel(overrides, env, parsed.data?.logLevel ?? "info", problems);
  const lockLifeMs = chooseLockLife(env, problems);
  const resolver = createSecretResolver({ folder: dirname(path), env, problems, warnings });
  const secrets = await resolveSecrets(tree, Object.keys(written.connections), resolver, problems);
  const found = problems.list();
  if (!parsed.success || found.length > 0) {
    throw failure(path, found, "invalid_configuration");
  }
  warnOfDisabledSources(written, references, warnings);
  warnOfSharedColumns(written, warnings);
  await warnOfSharedKeys(parsed.data, dirname(path), warnings);
  return buildConfig(parsed.data, references, secrets, {
    file: path,
    warnings: warnings.list(),
    logLevel,
    lockLifeMs,
    dataDir: chooseDataDir(overrides, env, path, parsed.data.dataDir),
  });
}

function isMapping(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Adds the problem of a file that isn't a mapping. */
function notMapping(value: unknown, problems: Problems): readonly Problem[] {
  problems.add([], {
    message: value === null || value === undefined ? "is empty" : "must be a mapping of keys to values",
    hint: "see config.example.yaml, or create one with `person-etl init`",
  });
  return problems.list();
}

function failure(file: string, problems: readonly Problem[], code: string): FixConfigurationError {
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  return new FixConfigurationError(code, `${count} in ${file}`, problems);
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
      warnings.add([section, name, "credentials"], {
        message: "names a file that other users can read",
        hint: "chmod 600 it",
      });
    }
  }
}
