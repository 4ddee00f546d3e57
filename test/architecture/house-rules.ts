/** A place in a file that breaks a rule of the house. */
export interface Place {
  readonly file: string;
  /** 1-based. */
  readonly line: number;
  readonly text: string;
}

/** Every line of a file that a pattern matches. */
export function findLines(file: string, content: string, pattern: RegExp): readonly Place[] {
  return content.split("\n").flatMap((text, i) => (pattern.test(text) ? [{ file, line: i + 1, text }] : []));
}

/** Reads the environment, in any spelling. */
export const READS_ENVIRONMENT = /\bprocess\s*\.\s*env\b|\benv\b.*from\s+["'](?:node:)?process["']/u;

/** Files that may read the environment beside the configuration, and why. */
export const environmentReaders: Readonly<Record<string, string>> = {
  "src/main.ts": "hands the environment to the configuration",
  "src/cli/command-line.ts": "hands the environment to the configuration",
  "src/cli/terminal.ts": "TERM says what a terminal can show",
  "src/crash-point.ts": "a test names the step at which the process kills itself; no user ever sets it",
  "src/load/embedded/run-program.ts": "a child process on Windows needs the system's variables",
};

/** A path that exists on one machine only. */
export const MACHINE_PATH = new RegExp(
  String.raw`(?<![\w./-])/(?:${["work", "root"].join("|")})/|(?<![\w./-])/(?:home|Users)/[a-z]|[A-Z]:\\+Users`,
  "u",
);

/** Turns the linter off, or the compiler. */
export const SILENCES_CHECKS = new RegExp(
  String.raw`(?:ox|es)lint-${"disable"}|@ts-(?:${["ignore", "nocheck", "expect-error"].join("|")})`,
  "u",
);
