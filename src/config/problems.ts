import type { Problem } from "../errors.ts";

/** Path in the file: keys and list positions from the top. */
export type Path = readonly (string | number)[];

/** Problem of one setting. */
export interface Complaint {
  /** Predicate of a sentence whose subject is the path (`must be a whole number from 1 to 64`). */
  readonly message: string;
  /** Next step. */
  readonly hint: string;
}

/** Collects problems; only the first one per path is kept. */
export interface Problems {
  add(path: Path, message: Complaint["message"], hint: Complaint["hint"]): void;
  /** Adds a problem with a known location. */
  addProblem(problem: Problem): void;
  /** True if this path already has a problem. */
  has(path: Path): boolean;
  /** True if this path or one below it already has a problem. */
  hasBelow(path: Path): boolean;
  /** All problems, by line. */
  list(): readonly Problem[];
}

/** Creates a collection of problems for a file. `lineOf` returns the line of a path. */
export function createProblems(fileName: string, lineOf: (path: Path) => number): Problems {
  const paths = new Map<string, Path>();
  const problems: Problem[] = [];
  const has = (path: Path) => paths.has(keyOf(path));
  return {
    has,
    hasBelow: (path) => [...paths.values()].some((other) => path.every((step, i) => other[i] === step)),
    addProblem: (problem) => void problems.push(problem),
    add(path, message, hint) {
      if (has(path)) return;
      paths.set(keyOf(path), path);
      problems.push({ path: path.length === 0 ? fileName : textOf(path), message, line: lineOf(path), hint });
    },
    list: () => problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0)),
  };
}

/**
 * Most similar known name, ignoring case, `_` and `-`; else the only one that contains the given text or is part of it
 * (`enrich` for `enrich_customers`). Null if none is similar.
 */
export function suggest(given: string, known: readonly string[]): string | null {
  const wanted = plain(given);
  if (wanted === "" || wanted.length > 64) return null;
  return mostSimilar(wanted, known) ?? onlyRelated(wanted, known);
}

function onlyRelated(wanted: string, known: readonly string[]): string | null {
  const related = known.filter((name) => {
    const [shorter = "", longer = ""] = [wanted, plain(name)].toSorted((a, b) => a.length - b.length);
    return shorter.length >= 4 && longer.includes(shorter);
  });
  return related.length === 1 ? (related[0] ?? null) : null;
}

function mostSimilar(wanted: string, known: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const name of known) {
    const distance = editDistance(wanted, plain(name));
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_\-\s]/g, "");
}

/** Minimum number of insertions, deletions, replacements and swaps between two texts. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let least = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) least = Math.min(least, at(beforeLast, j - 2) + 1);
      row.push(least);
    }
    [beforeLast, last] = [last, row];
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}

function keyOf(path: Path): string {
  return JSON.stringify(path);
}

/** Formats a path (`jobs.enrich_customers.return_fields[2]`). */
export function textOf(path: Path): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else text += `${text === "" ? "" : "."}${showable(step)}`;
  }
  return text;
}

/**
 * Key for a message. A secret pasted in the wrong place can become a key, so text that doesn't look like a name is replaced
 * by `?`; the line identifies the location.
 */
function showable(key: string): string {
  const digits = key.replaceAll(/\D/g, "").length;
  return /^[A-Za-z_/-][A-Za-z0-9_/ -]{0,62}$/.test(key) && digits <= 4 ? key : "?";
}
