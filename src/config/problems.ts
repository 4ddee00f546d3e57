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

/** Parses the text of a path whose names have no dots. */
export function pathOf(text: string): Path {
  return text
    .split(/\.|\[(\d+)\]/)
    .filter(Boolean)
    .map((step) => (/^\d+$/.test(step) ? Number(step) : step));
}

/**
 * Key for a message. A secret pasted in the wrong place can become a key, so text that doesn't look like a name is replaced
 * by `?`; the line identifies the location.
 */
function showable(key: string): string {
  return /^[A-Za-z_/-][A-Za-z0-9_/ -]{0,62}$/.test(key) && digitsOf(key) <= 4 ? key : "?";
}

/**
 * Value of the file for a message, in parentheses; empty for what is no single value, or may be a secret or personal data.
 * Not for values of the environment.
 */
export function foundText(value: unknown): string {
  if (typeof value === "boolean") return ` (found ${value})`;
  if (typeof value === "number") return digitsOf(String(value)) <= MAX_DIGITS ? ` (found ${value})` : "";
  return typeof value === "string" && isHarmless(value) ? ` (found ${JSON.stringify(value)})` : "";
}

/** Digits of a number that is shown; accounts, cards and phones have more. */
const MAX_DIGITS = 6;

function digitsOf(text: string): number {
  return text.replaceAll(/\D/g, "").length;
}

/** Forms that have more digits or words than other texts: durations, days, amounts and schedules. */
const SHOWN_FORMS = [
  /^\d{1,9} ?(?:s|m|h|d|w|mo|y|(?:sec(?:ond)?|min(?:ute)?|hour|day|week|mon(?:th)?|year)s?)$/i,
  /^(?:\d{4}-\d{2}-\d{2}|\d{2}[./]\d{2}[./]\d{4})$/,
  /^[$€£]\d{1,6}$/,
];

const SCHEDULE = /^(?:[*\d][\d*/,-]{0,7} ){4,5}[*\d][\d*/,-]{0,7}$/;

const WORDS = /^(?!:)[a-z0-9_./:*,@-]{1,24}(?: [a-z0-9_./:*,@-]{1,24})?$/i;

/** E-mail addresses, numbers as people have them, and words in the names of keys. */
const SUSPICIOUS =
  /\S@|:\/\/|:.*@|\d{5}|(?<!\d)\d{3}-\d{2,4}|\b[spr]k[_-]|_(?:live|test)_|pass|pwd|secret|token|api_?key|credential|^gh[a-z]_|^xox|^akia|^eyj/i;

/** True for a short text that looks like a name, a number, a day or a schedule. */
function isHarmless(text: string): boolean {
  if (SHOWN_FORMS.some((form) => form.test(text))) return true;
  const digits = digitsOf(text);
  if (SCHEDULE.test(text)) return digits <= 10 && !/\d{3}/.test(text);
  if (!WORDS.test(text) || digits > MAX_DIGITS) return false;
  if (/^\d+$/.test(text)) return true;
  return !SUSPICIOUS.test(text) && !(text.match(/[a-z0-9]{12,}/gi) ?? []).some(isMixed);
}

/** True for a run of characters as keys have it: of both cases, or letters and digits. */
function isMixed(run: string): boolean {
  return [/[a-z]/, /[A-Z]/, /\d/].filter((kind) => kind.test(run)).length > 1;
}
