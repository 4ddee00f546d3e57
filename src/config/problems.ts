import type { Problem } from "../errors.ts";

/** Path in the file: keys and list positions from the top. */
export type Path = readonly (string | number)[];

/** Problem of one setting. */
export interface Complaint {
  /** A sentence without its subject, which is the path (`must be a whole number from 1 to 64`). */
  readonly message: string;
  /** Next step. */
  readonly hint: string;
}

/** Gathers problems; once a place has one, later stages say nothing more about it. */
export interface Problems {
  add(path: Path, complaint: Complaint): void;
  /** Adds one whose place is known already. */
  addProblem(problem: Problem): void;
  /** True when this very place has a problem already. */
  has(path: Path): boolean;
  /** All problems so far, by line. */
  list(): readonly Problem[];
}

/** An empty list of problems about that file; `lineOf` tells the line of a path. */
export function createProblems(fileName: string, lineOf: (path: Path) => number): Problems {
  const places = new Set<string>();
  const problems: Problem[] = [];
  const has = (path: Path) => places.has(placeOf(path));
  return {
    has,
    addProblem: (problem) => void problems.push(problem),
    add(path, { message, hint }) {
      if (has(path)) return;
      places.add(placeOf(path));
      problems.push({ path: path.length === 0 ? fileName : textOf(path), message, line: lineOf(path), hint });
    },
    list: () => problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0)),
  };
}

function placeOf(path: Path): string {
  return JSON.stringify(path);
}

/** The path as people write it (`jobs.enrich_customers.return_fields[2]`). */
export function textOf(path: Path): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else text += `${text === "" ? "" : "."}${showable(step)}`;
  }
  return text;
}

/**
 * A key as it may be shown. A secret pasted into the wrong place can end up as a key; what doesn't look
 * like a name is therefore not repeated (the line tells the place).
 */
export function showable(key: string): string {
  const digits = key.replaceAll(/\D/g, "").length;
  return /^[A-Za-z_/-][A-Za-z0-9_/ -]{0,62}$/.test(key) && digits <= 4 ? key : "?";
}
