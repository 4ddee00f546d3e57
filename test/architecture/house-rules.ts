import { parseSync } from "rolldown/utils";

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

/** Matches words that docs/glossary.md replaces: response, processed, paid for again, run, unconfirmed, system of record. */
export const REPLACED_WORDS =
  /\b(?:(?:un)?answer(?:s|ed|ing)?|bought|nights?|nightly|in doubt|place of record|anew|whoever|for want of)\b/iu;

/** Texts of several words in the string literals of a file, which users may read; SQL and what is inserted are left out. */
export function textsOf(file: string, content: string): readonly Place[] {
  const found: Place[] = [];
  const add = (start: number, text: string) => {
    if (!/\S\s+\S/u.test(text) || SQL.test(text)) return;
    found.push({ file, line: content.slice(0, start).split("\n").length, text });
  };
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    if ("type" in node && "start" in node && typeof node.start === "number") {
      const { type, start } = node;
      if (type === "TaggedTemplateExpression") return;
      if (type === "Literal" && "value" in node && typeof node.value === "string") add(start, node.value);
      if (type === "TemplateLiteral" && "quasis" in node && Array.isArray(node.quasis)) {
        const quasis: readonly { value: { cooked: string } }[] = node.quasis;
        add(start, quasis.map(({ value }) => value.cooked).join("…"));
      }
    }
    for (const child of Object.values(node)) visit(child);
  };
  visit(parseSync(file, content).program);
  return found;
}

const SQL = /\b(?:SELECT|CASE|SAVEPOINT|CREATE|INSERT|WHERE|UNION)\b/u;
