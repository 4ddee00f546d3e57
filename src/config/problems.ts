import type { Problem } from "../errors.ts";

/** Path in the file: keys and list positions from the top. */
export type Path = readonly (string | number)[];

export interface SettingProblem {
  /** Predicate of a sentence whose subject is the path (`must be a whole number from 1 to 64`). */
  readonly message: string;
  readonly hint: string;
}

/** Problem of a setting inside a mapping. */
export interface NestedProblem extends SettingProblem {
  readonly path: Path;
}

/** Collects problems; only the first one per path is kept. */
export interface Problems {
  add(path: Path, message: string, hint: string): void;
  /** Adds a problem with a known location. */
  addProblem(problem: Problem): void;
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
  const most = Math.max(1, Math.floor(wanted.length / 3));
  const [best] = known
    .map((name) => ({ name, distance: editDistance(wanted, plain(name)) }))
    .filter(({ distance }) => distance <= most)
    .toSorted((a, b) => a.distance - b.distance);
  if (best) return best.name;
  const related = known.filter((name) => {
    const [shorter = "", longer = ""] = [wanted, plain(name)].toSorted((a, b) => a.length - b.length);
    return shorter.length >= 4 && longer.includes(shorter);
  });
  return related.length === 1 ? (related[0] ?? null) : null;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_\-\s]/g, "");
}

/** Minimum number of insertions, deletions and replacements between two texts. */
function editDistance(a: string, b: string): number {
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (const [i, letter] of a.split("").entries()) {
    const row = [i + 1];
    for (const [j, other] of b.split("").entries()) {
      const [left = 0, above = 0, diagonal = 0] = [row[j], last[j + 1], last[j]];
      row.push(Math.min(left + 1, above + 1, diagonal + (letter === other ? 0 : 1)));
    }
    last = row;
  }
  return last.at(-1) ?? 0;
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
