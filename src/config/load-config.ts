import { basename, dirname, resolve } from "node:path";
import { FixConfigurationError, type Problem } from "../errors.ts";
import { buildConfig } from "./build-config.ts";
import type { Config } from "./config.ts";
import { expandTree } from "./expand-tree.ts";
import { explainIssues } from "./explain.ts";
import { createProblems, type Problems } from "./problems.ts";
import { readConfigFile } from "./read-file.ts";
import type { Environment } from "./references.ts";
import { createSecretResolver, resolveSecrets } from "./resolve-secrets.ts";
import { checkAvailability } from "./rules/availability.ts";
import { checkInputs } from "./rules/inputs.ts";
import { checkJobs } from "./rules/jobs.ts";
import { type Links, readLinks } from "./rules/links.ts";
import { checkNames } from "./rules/names.ts";
import { checkHttp, checkService, checkWarehouse } from "./rules/places.ts";
import { noteDisabledSources } from "./rules/warnings.ts";
import { documentSchema } from "./schema/document.ts";
import { jobTypes } from "./schema/jobs.ts";
import { chooseDataDir, chooseLockLife, chooseLogLevel, type Overrides } from "./settings.ts";
import { readYaml } from "./yaml-source.ts";

/** What {@link loadConfig} reads. */
export interface LoadOptions {
  readonly file: string;
  readonly env: Environment;
  readonly overrides?: Overrides;
}

/**
 * Reads and checks the configuration. Throws one FixConfigurationError with every problem, each with its
 * path, line and hint; no problem ever repeats a value of the file or of the environment.
 */
export async function loadConfig({ file, env, overrides = {} }: LoadOptions): Promise<Config> {
  const path = resolve(file);
  const source = readYaml(await readConfigFile(path), basename(path));
  const { syntax } = source;
  if (!syntax.isReadable) throw failure(path, syntax.problems, "invalid_configuration");

  const problems = createProblems(basename(path), source.lineOf);
  const warnings = createProblems(basename(path), source.lineOf);
  for (const problem of syntax.problems) problems.addProblem(problem);
  for (const { path: place, complaint } of source.complaints) problems.add(place, complaint);
  if (!checkIsMapping(source.value, problems)) throw failure(path, problems.list(), "invalid_configuration");

  const tree = expandTree(documentSchema, source.value, env, problems);
  const parsed = documentSchema.safeParse(tree);
  // Before the schema speaks: what a rule says about an unknown key or a missing value is more to the point.
  const links = readLinks(tree);
  checkRules(links, problems);
  if (!parsed.success) explainIssues(documentSchema, tree, parsed.error.issues, problems);
  const refused = checkAvailability(links, jobTypes, problems);

  const logLevel = chooseLogLevel(overrides, env, parsed.data?.log_level ?? "info", problems);
  const lockLifeMs = chooseLockLife(env, problems);
  const resolver = createSecretResolver({ folder: dirname(path), env, problems, warnings });
  const secrets = await resolveSecrets(tree, Object.keys(links.connections), resolver, problems);
  const found = problems.list();
  if (!parsed.success || found.length > 0) {
    const onlyRefused = refused === found.length;
    throw failure(path, found, onlyRefused ? "not_available_in_this_version" : "invalid_configuration");
  }
  noteDisabledSources(links, warnings);
  return buildConfig(parsed.data, secrets, {
    file: path,
    warnings: warnings.list(),
    logLevel,
    lockLifeMs,
    dataDir: chooseDataDir(overrides, env, path, parsed.data.data_dir),
  });
}

function checkIsMapping(value: unknown, problems: Problems): boolean {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return true;
  problems.add([], {
    message: value === null || value === undefined ? "is empty" : "must be a mapping of keys to values",
    hint: "see config.example.yaml, or make one with `person-etl init`",
  });
  return false;
}

function checkRules(links: Links, problems: Problems): void {
  checkNames(links, problems);
  checkService(links, problems);
  checkWarehouse(links, problems);
  checkHttp(links, problems);
  checkInputs(links, problems);
  checkJobs(links, problems);
}

function failure(file: string, problems: readonly Problem[], code: string): FixConfigurationError {
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  return new FixConfigurationError(code, `${count} in ${file}`, problems);
}
