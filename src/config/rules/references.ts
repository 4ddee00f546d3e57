import { dependenciesOf, type Reference } from "../part-references.ts";
import type { Problems } from "../problems.ts";
import type { JobDeclaration, WrittenJob } from "../schema/jobs.ts";
import { entriesOf, entryNamed, isEnabled, type WrittenFile } from "../written-file.ts";
import { unknownName } from "./names.ts";

/** Checks that every input, connection or job referred to exists and fits. */
export function checkReferences(
  file: WrittenFile,
  references: readonly Reference[],
  jobTypes: readonly JobDeclaration[],
  problems: Problems,
): void {
  const sections = { input: "inputs", connection: "connections", job: "jobs" } as const;
  const known = {
    input: Object.keys(file.inputs),
    connection: Object.keys(file.connections),
    job: Object.keys(file.jobs),
  };
  for (const reference of references) {
    const { names, name } = reference;
    if (names.part === "search") {
      checkSearch(file, reference, problems);
      continue;
    }
    // A name that has a problem itself, or was not read.
    const section = sections[names.part];
    const isNoneRead = known[names.part].length === 0 && problems.hasBelow([section]);
    if (isNoneRead || problems.has([section, name])) continue;
    const type = names.part === "job" ? entryNamed(file.jobs, name)?.["type"] : undefined;
    if (type !== undefined && jobTypes.every((known) => known.type !== type)) continue;
    if (names.part === "job" && names.jobTypes !== undefined) {
      checkJobOfType(file, reference, names.jobTypes, problems);
    } else if (!known[names.part].includes(name)) {
      problems.add(pathOf(file, reference), unknownName(names.part, name, known[names.part]));
    }
  }
}

/** Path of a reference; a single name may be written without a list. */
function pathOf({ jobs }: WrittenFile, { path }: Reference): Reference["path"] {
  const [section, job = "", setting = ""] = path;
  const value = section === "jobs" ? entryNamed(jobs, String(job))?.[setting] : undefined;
  return Array.isArray(value) && value.length === 1 && path.length === 4 ? path.slice(0, 3) : path;
}

function checkJobOfType(
  file: WrittenFile,
  { path, names, name, within }: Reference,
  types: readonly string[],
  problems: Problems,
): void {
  const type = types.join(" or ");
  const job = entryNamed(file.jobs, String(path[1]));
  const isOfType = (other: WrittenJob) => types.some((one) => other["type"] === one);
  const isOnInput = (other: WrittenJob) => names.usesAnswers !== true || other["input"] === job?.["input"];
  const suitable = entriesOf(file.jobs).flatMap(([other, written]) =>
    isOfType(written) && isOnInput(written) ? [other] : [],
  );
  const source = entryNamed(file.jobs, name);
  if (!Object.hasOwn(file.jobs, name)) {
    problems.add(path, unknownName(names.usesAnswers ? "job" : `${type} job`, name, suitable));
  } else if (typeof source?.["type"] === "string" && !isOfType(source)) {
    problems.add(path, {
      message: `must be a job of type ${type}, not ${source["type"]}`,
      hint: suitableHint(suitable),
    });
  } else if (source && job && !isOnInput(source) && isKnownInput(file, source) && isKnownInput(file, job)) {
    problems.add(path, {
      message: "is a job with a different input",
      hint: suitableHint(suitable),
    });
  } else if (source?.["type"] === SEARCHING && within["search"] === undefined) {
    problems.add([...path.slice(0, -1), "search"], {
      message: "is missing",
      hint: `the searches of ${name} are ${searchesOf(source).join(", ")}`,
    });
  }
}

/** Type of jobs whose searches can be referred to. */
const SEARCHING = "audience_search";

function searchesOf(job: WrittenJob): readonly string[] {
  const { searches } = job;
  return typeof searches === "object" && searches !== null ? Object.keys(searches) : [];
}

/** Checks a reference to a search of the job beside it. */
function checkSearch({ jobs }: WrittenFile, { path, name, within }: Reference, problems: Problems): void {
  const job = entryNamed(jobs, String(within["job"]));
  if (!job) return;
  if (job["type"] !== SEARCHING) {
    problems.add(path, {
      message: `needs a job of type ${SEARCHING}`,
      hint: "remove it, or name such a job",
    });
  } else if (!searchesOf(job).includes(name)) {
    problems.add(path, unknownName("search of the job", name, searchesOf(job)));
  }
}

function isKnownInput({ inputs }: WrittenFile, { input }: WrittenJob): boolean {
  return typeof input === "string" && Object.hasOwn(inputs, input);
}

function suitableHint(names: readonly string[]): string {
  if (names.length === 1) return `did you mean ${names.join()}?`;
  return names.length === 0 ? "no such job has this input" : `jobs with this input: ${names.join(", ")}`;
}

/** Adds a problem for each dependency cycle. */
export function checkCycles(references: readonly Reference[], problems: Problems): void {
  const waitsFor = new Map<string, string[]>();
  for (const { job, waitsFor: name } of dependenciesOf(references)) {
    waitsFor.set(job, [...(waitsFor.get(job) ?? []), name]);
  }
  const done = new Set<string>();

  function visit(name: string, trail: readonly string[]): void {
    const start = trail.indexOf(name);
    if (start >= 0) {
      problems.add(["jobs", name], {
        message: `depends on itself: ${[...trail.slice(start), name].join(" → ")}`,
        hint: "remove one of these from `after`, `pid_from`, `valid_emails_from`, `segments` or the `job` of an input",
      });
      return;
    }
    if (done.has(name)) return;
    for (const other of waitsFor.get(name) ?? []) visit(other, [...trail, name]);
    done.add(name);
  }
  for (const name of waitsFor.keys()) visit(name, []);
}

/** Warns about jobs that use the answers of a disabled job: rows without an answer wait until it is enabled. */
export function warnOfDisabledSources(
  { jobs }: WrittenFile,
  references: readonly Reference[],
  warnings: Problems,
): void {
  for (const { path, names, name } of references) {
    const [user, source] = [entryNamed(jobs, String(path[1])), entryNamed(jobs, name)];
    if (!names.usesAnswers || !user || !isEnabled(user) || !source || isEnabled(source)) continue;
    warnings.add(path, {
      message: "is a disabled job: its answers are not updated",
      hint: "enable it, or remove this line",
    });
  }
}
