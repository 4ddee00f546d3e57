/** A position in a file that breaks a house rule. */
export interface Place {
  readonly file: string;
  /** 1-based. */
  readonly line: number;
  readonly text: string;
}

/** Lines of a file that match a pattern. */
export function findLines(file: string, content: string, pattern: RegExp): readonly Place[] {
  return content.split("\n").flatMap((text, i) => (pattern.test(text) ? [{ file, line: i + 1, text }] : []));
}

/** Matches reads of the environment, in any spelling. */
export const READS_ENVIRONMENT = /\bprocess\s*\.\s*env\b|\benv\b.*from\s+["'](?:node:)?process["']/u;

/** Files outside the configuration that may read the environment, with the reason. */
export const environmentReaders: Readonly<Record<string, string>> = {
  "src/main.ts": "hands the environment to the configuration",
  "src/cli/program.ts": "hands the environment to the configuration",
  "src/cli/package.ts": "PATH decides how the user types the command",
  "src/http-agent.ts": "every program takes its proxy from there",
  "src/bigquery/client.ts": "Google's tools find an emulator there",
  "src/cli/terminal.ts": "TERM says what a terminal can show",
  "src/crash-point.ts": "a test names the step at which the process kills itself; no user ever sets it",
  "src/load/embedded/programs.ts": "a child process on Windows needs the system's variables",
};

/** Matches a path that exists on one machine only. */
export const MACHINE_PATH = new RegExp(
  String.raw`(?<![\w./-])/(?:${["work", "root"].join("|")})/|(?<![\w./-])/(?:home|Users)/[a-z]|[A-Z]:\\+Users`,
  "u",
);

/** Matches comments that disable the linter or the compiler. */
export const SILENCES_CHECKS = new RegExp(
  String.raw`(?:ox|es)lint-${"disable"}|@ts-(?:${["ignore", "nocheck", "expect-error"].join("|")})`,
  "u",
);
