import { writers } from "../schemas/ops.ts";
import { type Path, type Problems, suggest } from "./problems.ts";
import type { JobDeclaration, WrittenJob } from "./schema/jobs.ts";
import {
  expectationOf,
  mappingAt,
  optionFor,
  type PartName,
  type Schema,
  schemaAt,
  valueAt,
  isMapping,
} from "./schema/settings.ts";
import { NAME } from "./schema/values.ts";

/** A file as written, before the schema has accepted it: one invalid value doesn't hide other problems. */
export interface Written {
  readonly tree: object;
  /** All settings that refer to another part of the file; within a job, `after` first. */
  readonly references: readonly Reference[];
  readonly jobTypes: readonly JobDeclaration[];
}

/** Setting that refers to another part of the file. */
export interface Reference {
  readonly path: Path;
  readonly names: PartName;
  /** The name as written. */
  readonly name: string;
  /** Mapping that the setting is in. */
  readonly within: Readonly<Record<string, unknown>>;
}

/** Entries of a section that are mappings, by name. */
export function entriesOf(tree: object, section: string): readonly [string, WrittenJob][] {
  const names = Object.keys(mappingAt(tree, section));
  return names.flatMap((name) => {
    const entry = entryNamed(tree, section, name);
    return entry === null ? [] : [[name, entry] as [string, WrittenJob]];
  });
}

/** Entry by name; null if there is none, or if it isn't a mapping. */
function entryNamed(tree: object, section: string, name: string): WrittenJob | null {
  const entry = valueAt(tree, [section, name]);
  return isMapping(entry) ? entry : null;
}

/** True unless a job is disabled. */
export function isEnabled(job: WrittenJob): boolean {
  return job["enabled"] !== false;
}

/** Finds the references in a file. */
export function findReferences(root: Schema, tree: unknown): readonly Reference[] {
  const found: Reference[] = [];
  function visit(value: unknown, path: Path, within: Reference["within"]): void {
    if (Array.isArray(value)) value.forEach((item, position) => visit(item, [...path, position], within));
    else if (typeof value === "object" && value !== null) {
      for (const [key, item] of Object.entries(value)) visit(item, [...path, key], { ...value });
    } else if (typeof value === "string") {
      const schema = schemaAt(root, path, tree);
      const names = schema && expectationOf(optionFor(schema, value) ?? schema)?.names;
      if (names) found.push({ path, names, name: value, within });
    }
  }
  visit(tree, [], {});
  const isAfter = ({ path }: Reference) => path[2] === "after";
  return [...found.filter(isAfter), ...found.filter((reference) => !isAfter(reference))];
}

/** Jobs that a job waits for: those in its settings, and those that its input comes from. */
export function dependenciesOf(
  references: readonly Reference[],
): readonly { readonly job: string; readonly waitsFor: string }[] {
  const ofJobs = references.filter(({ path }) => path[0] === "jobs");
  const ofInputs = references.filter(({ path, names }) => path[0] === "inputs" && names.part === "job");
  return ofJobs.flatMap(({ path, names, name }) => {
    const job = String(path[1]);
    if (names.part === "job") return [{ job, waitsFor: name }];
    const origins = names.part === "input" ? ofInputs.filter((origin) => origin.path[1] === name) : [];
    return origins.map((origin) => ({ job, waitsFor: origin.name }));
  });
}

/**
 * Enabled jobs in dependency order, otherwise in file order. Disabled jobs still order the jobs before and after them.
 */
export function orderJobs<
  Job extends { readonly name: string; readonly after: readonly string[]; readonly enabled: boolean },
>(config: { readonly jobs: readonly Job[] }): readonly Job[] {
  const waiting = [...config.jobs];
  const placed = new Set<string>();
  const known = new Set(waiting.map((job) => job.name));
  const ordered: Job[] = [];
  while (waiting.length > 0) {
    const next = waiting.findIndex((job) => job.after.every((name) => placed.has(name) || !known.has(name)));
    const [job] = waiting.splice(Math.max(next, 0), 1);
    if (!job) break;
    placed.add(job.name);
    ordered.push(job);
  }
  return ordered.filter((job) => job.enabled);
}

/** Checks names chosen by the user, which become column values (`source`, `job`) and metric labels. */
export function checkNames({ tree }: Written, problems: Problems): void {
  for (const section of ["publish", "connections", "inputs", "jobs"]) {
    for (const name of Object.keys(mappingAt(tree, section)).filter((one) => !NAME.test(one))) {
      problems.add(
        [section, name],
        "is not a valid name",
        "use lower-case letters, digits and _, starting with a letter; at most 63 characters",
      );
    }
  }
  for (const name of writers.filter((writer) => Object.hasOwn(mappingAt(tree, "jobs"), writer))) {
    const hint = "a command of this name records its runs under it; choose another name";
    problems.add(["jobs", name], "is a reserved name", hint);
  }
}

/** Checks that every input, connection or job referred to exists and fits. */
export function checkReferences(file: Written, problems: Problems): void {
  const { tree, references, jobTypes } = file;
  const sections = { input: "inputs", connection: "connections", job: "jobs" } as const;
  for (const reference of references) {
    const { names, name } = reference;
    if (names.part === "search") {
      checkSearch(file, reference, problems);
      continue;
    }
    const section = sections[names.part];
    const known = Object.keys(mappingAt(tree, section));
    // A name that has a problem itself, or was not read.
    const isNoneRead = known.length === 0 && problems.hasBelow([section]);
    if (isNoneRead || problems.has([section, name])) continue;
    const type = names.part === "job" ? entryNamed(tree, section, name)?.["type"] : undefined;
    if (type !== undefined && jobTypes.every((declared) => declared.type !== type)) continue;
    if (names.part === "job" && names.jobTypes !== undefined) {
      checkJobOfType(file, reference, names.jobTypes, problems);
    } else if (!known.includes(name)) {
      reportUnknown(problems, pathOf(file, reference), names.part, name, known);
    }
  }
}

/** Reports an unknown name, with a suggestion or a list of all names. */
function reportUnknown(
  problems: Problems,
  path: Path,
  what: string,
  given: string,
  known: readonly string[],
): void {
  const meant = suggest(given, known);
  const names = known.filter((name) => NAME.test(name)).join(", ");
  const all = known.length === 0 ? `there is no ${what}` : `known names: ${names}`;
  problems.add(path, `is not a configured ${what}`, meant === null ? all : `did you mean ${meant}?`);
}

/** Path of a reference; a single name may be written without a list. */
function pathOf({ tree }: Written, { path }: Reference): Path {
  const value = path[0] === "jobs" ? valueAt(tree, path.slice(0, 3)) : undefined;
  return Array.isArray(value) && value.length === 1 && path.length === 4 ? path.slice(0, 3) : path;
}

function checkJobOfType(
  { tree }: Written,
  { path, names, name, within }: Reference,
  types: readonly string[],
  problems: Problems,
): void {
  const type = types.join(" or ");
  const job = entryNamed(tree, "jobs", String(path[1]));
  const isOfType = (other: WrittenJob) => types.some((one) => other["type"] === one);
  const ownInput = names.usesAnswers === true ? job?.["input"] : undefined;
  const isOnInput = (other: WrittenJob) => names.usesAnswers !== true || other["input"] === ownInput;
  const isOnKnownInput = ({ input }: WrittenJob) =>
    typeof input === "string" && valueAt(tree, ["inputs", input]) !== undefined;
  const suitable = entriesOf(tree, "jobs").flatMap(([other, written]) =>
    isOfType(written) && isOnInput(written) ? [other] : [],
  );
  const source = entryNamed(tree, "jobs", name);
  if (!Object.hasOwn(mappingAt(tree, "jobs"), name)) {
    reportUnknown(problems, path, names.usesAnswers ? "job" : `${type} job`, name, suitable);
  } else if (typeof source?.["type"] === "string" && !isOfType(source)) {
    problems.add(
      path,
      `must be a job of type ${type}, not ${source["type"]}`,
      suitableHint(suitable, ownInput),
    );
  } else if (source && job && !isOnInput(source) && isOnKnownInput(source) && isOnKnownInput(job)) {
    problems.add(path, "is a job with a different input", suitableHint(suitable, ownInput));
  } else if (source?.["type"] === SEARCHING && within["search"] === undefined) {
    const hint = `the searches of ${name} are ${searchesOf(source).join(", ")}`;
    problems.add([...path.slice(0, -1), "search"], "is missing", hint);
  }
}

function suitableHint(names: readonly string[], input: unknown): string {
  if (names.length === 1) return `did you mean ${names.join()}?`;
  if (names.length > 1) return `jobs with this input: ${names.join(", ")}`;
  return input === undefined ? "there is no such job" : "no such job has this input";
}

/** Type of jobs whose searches can be referred to. */
const SEARCHING = "audience_search";

function searchesOf(job: WrittenJob): readonly string[] {
  return Object.keys(mappingAt(job, "searches"));
}

/** Checks a reference to a search of the job beside it. */
function checkSearch({ tree }: Written, { path, name, within }: Reference, problems: Problems): void {
  const job = entryNamed(tree, "jobs", String(within["job"]));
  if (!job) return;
  if (job["type"] !== SEARCHING) {
    problems.add(path, `needs a job of type ${SEARCHING}`, "remove it, or name such a job");
  } else if (!searchesOf(job).includes(name)) {
    reportUnknown(problems, path, "search of the job", name, searchesOf(job));
  }
}

/** Adds a problem for each dependency cycle. */
export function checkCycles({ references }: Written, problems: Problems): void {
  const waitsFor = Map.groupBy(dependenciesOf(references), ({ job }) => job);
  const done = new Set<string>();

  function visit(name: string, trail: readonly string[]): void {
    const start = trail.indexOf(name);
    if (start >= 0) {
      problems.add(
        ["jobs", name],
        `depends on itself: ${[...trail.slice(start), name].join(" → ")}`,
        "remove one of these from `after`, `pid_from`, `valid_emails_from`, `segments` or the `job` of an input",
      );
      return;
    }
    if (done.has(name)) return;
    for (const other of waitsFor.get(name) ?? []) visit(other.waitsFor, [...trail, name]);
    done.add(name);
  }
  for (const name of waitsFor.keys()) visit(name, []);
}

/** Warns about jobs that use the answers of a disabled job: rows without an answer wait until it is enabled. */
export function warnOfDisabledSources({ tree, references }: Written, warnings: Problems): void {
  for (const { path, names, name } of references) {
    const [user, source] = [String(path[1]), name].map((job) => entryNamed(tree, "jobs", job));
    if (!names.usesAnswers || !user || !isEnabled(user) || !source || isEnabled(source)) continue;
    const message = "is a disabled job: its answers are not updated";
    warnings.add(path, message, "enable it, or remove this line");
  }
}
