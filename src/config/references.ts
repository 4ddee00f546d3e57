import { foundText, type Path, type Problems } from "./problems.ts";
import { suggest } from "../suggest.ts";
import type { JobDeclaration, WrittenJob } from "./schema/jobs.ts";
import {
  isMapping,
  mapTexts,
  mappingAt,
  NAME,
  type PartName,
  type Schema,
  valueAt,
} from "./schema/settings.ts";

/** A file as written, before the schema has accepted it: one invalid value doesn't hide other problems. */
export interface Written {
  readonly tree: object;
  /** The same before variables were replaced; only its values are shown. */
  readonly source: unknown;
  /** All settings that refer to another part of the file; within a job, `after` first. */
  readonly references: readonly Reference[];
  readonly jobTypes: readonly JobDeclaration[];
}

/** Setting that refers to another part of the file. */
export interface Reference {
  readonly path: Path;
  readonly names: PartName;
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

export function findReferences(root: Schema, tree: object): readonly Reference[] {
  const found: Reference[] = [];
  mapTexts(root, tree, (name, { path, within, expectation }) => {
    if (expectation?.names) found.push({ path, names: expectation.names, name, within });
    return name;
  });
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

/** Type of jobs whose searches can be referred to. */
const SEARCHING = "audience_search";

const SECTIONS = { input: "inputs", connection: "connections", job: "jobs" } as const;

const rank = ({ names }: Reference) => (names.part === "job" ? 1 : 0);

/** Checks that every input, connection, job or search referred to exists and fits. */
export function checkReferences({ tree, source, references }: Written, problems: Problems): void {
  // Jobs last: whether they fit depends on their own inputs.
  for (const { path, names, name, within } of references.toSorted((a, b) => rank(a) - rank(b))) {
    const { part, jobTypes: types, usesAnswers } = names;
    const section = part === "search" ? ["jobs", String(within["job"]), "searches"] : [SECTIONS[part]];
    const entries = mappingAt(tree, ...section);
    const hasProblem = [[], ["type"], ["input"]].some((at) => problems.has([...section, name, ...at]));
    // What is missing or misspelled there has a problem of its own.
    if (hasProblem || (Object.keys(entries).length === 0 && problems.hasBelow(section))) continue;
    const typeOf = (other: string) => String(valueAt(entries, [other, "type"]));
    const isOfType = (other: string) => types === undefined || types.includes(typeOf(other));
    const input = usesAnswers ? valueAt(tree, [...path.slice(0, 2), "input"]) : undefined;
    const isOnInput = (other: string) => input === undefined || valueAt(entries, [other, "input"]) === input;
    const fitting = Object.keys(entries).filter(
      (other) => NAME.test(other) && isOfType(other) && isOnInput(other),
    );
    if (fitting.includes(name)) {
      const searches = mappingAt(entries, name, "searches");
      if (!types?.includes(SEARCHING) || typeOf(name) !== SEARCHING || "search" in within) continue;
      const hint = `the searches of ${name} are ${listText(Object.keys(searches))}`;
      problems.add([...path.slice(0, -1), "search"], "is missing", hint);
      continue;
    }
    const type = types?.join(" or ");
    const isKnown = Object.hasOwn(entries, name);
    const kind = part === "search" ? "search of the job" : part;
    const what = type === undefined ? kind : `${type} ${kind}`;
    let message = `is not a configured ${what}`;
    if (isKnown && isOfType(name)) message = "is a job with a different input";
    else if (isKnown) message = `must be a job of type ${type}, not ${typeOf(name)}`;
    const similar = isKnown ? null : suggest(name, fitting);
    const meant = fitting.length === 1 ? fitting[0] : similar;
    const known = fitting.length === 0 ? `there is no such ${part}` : `known names: ${fitting.join(", ")}`;
    problems.add(
      path,
      isKnown ? message : `${message}${foundText(valueAt(source, path))}`,
      meant ? `did you mean ${meant}?` : known,
    );
  }
}

/** Names as text. Others are left out: a secret pasted in the wrong place can become a key. */
function listText(names: readonly string[]): string {
  return names.filter((name) => NAME.test(name)).join(", ");
}

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
    const message = "is a disabled job: its responses are not updated";
    warnings.add(path, message, "enable it, or remove this line");
  }
}
