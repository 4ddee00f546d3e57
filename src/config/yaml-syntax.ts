import { type Document, type ErrorCode, visit } from "yaml";
import type { Problem } from "../errors.ts";
import type { Complaint } from "./problems.ts";

/** Problems of a text that isn't valid YAML. */
export interface SyntaxProblems {
  readonly problems: readonly Problem[];
  /** False when what stands in the text is anyone's guess; true when the rest of it can still be checked. */
  readonly isReadable: boolean;
}

/** Mistakes that leave the structure as it was meant. All others make further errors, which are not told. */
const harmless: readonly ErrorCode[] = [
  "DUPLICATE_KEY",
  "MULTIPLE_DOCS",
  "BAD_DQ_ESCAPE",
  "TAG_RESOLVE_FAILED",
];

/** In our own words: the parser's messages quote the text, and the text can hold a key. */
export function syntaxProblems(
  document: Document.Parsed,
  text: string,
  fileName: string,
  lineAt: (offset: number) => number,
): SyntaxProblems {
  const sourceLines = text.split("\n");
  const errors = [...document.errors, ...document.warnings].toSorted((a, b) => a.pos[0] - b.pos[0]);
  const first = errors.findIndex(({ code }) => !harmless.includes(code));
  const told = errors.filter(({ code }, i) => i === first || harmless.includes(code));
  const byLine = new Map<number, Problem>();
  for (const { code, pos } of told) {
    const line = lineAt((code === "MISSING_CHAR" && startOfOpenQuote(document, pos[0])) || pos[0]);
    const { message, hint } = complaintOf(code, sourceLines[line - 1] ?? "");
    if (!byLine.has(line)) {
      byLine.set(line, { path: fileName, message, line, hint });
    }
  }
  return { problems: [...byLine.values()], isReadable: first < 0 };
}

/** A quote that is never closed is noticed at the end of the file; what helps is where it opened. */
function startOfOpenQuote(document: Document.Parsed, end: number): number | null {
  let start: number | null = null;
  visit(document, {
    Scalar(_, { type, range }) {
      const isQuoted = type === "QUOTE_SINGLE" || type === "QUOTE_DOUBLE";
      if (isQuoted && range && range[1] >= end - 1) start = range[0];
    },
  });
  return start;
}

function complaintOf(code: ErrorCode, sourceLine: string): Complaint {
  // Inside { … } and [ … ] a bare ${NAME} is a mapping of its own to YAML.
  if (/[{[,][^"']*\$\{/.test(sourceLine) && code !== "DUPLICATE_KEY") {
    return {
      message: "is not valid YAML here",
      hint: 'inside { } and [ ] put references in quotes: "${NAME}"',
    };
  }
  return (
    complaints[code] ?? { message: "is not valid YAML here", hint: "check quotes, brackets and indentation" }
  );
}

const complaints: Partial<Record<ErrorCode, Complaint>> = {
  TAB_AS_INDENT: { message: "has a tab in its indentation", hint: "indent with spaces; YAML allows no tabs" },
  DUPLICATE_KEY: { message: "has the same key twice in one mapping", hint: "keep one of them" },
  MULTIPLE_DOCS: {
    message: "holds several YAML documents",
    hint: "keep one document: remove the line `---` and what belongs to the other one",
  },
  BAD_INDENT: { message: "is indented in a way that YAML can't read", hint: "align it with its neighbours" },
  BLOCK_AS_IMPLICIT_KEY: {
    message: "has a mapping where YAML allows none",
    hint: "put a text with `: ` in it in quotes, and check the indentation",
  },
  MULTILINE_IMPLICIT_KEY: { message: "has a key without `:`", hint: "write `key: value`" },
  MISSING_CHAR: {
    message: "lacks a character here: a `:` after a key, a closing quote or bracket",
    hint: "check this line and the one before",
  },
  BAD_SCALAR_START: {
    message: "has a text that begins with a character that YAML reserves",
    hint: "put the text in quotes",
  },
  BAD_DQ_ESCAPE: {
    message: "has an unknown escape in double quotes",
    hint: "use single quotes, or double the backslash",
  },
  TAG_RESOLVE_FAILED: { message: "has an unknown tag (`!…`)", hint: "remove the tag; put text in quotes" },
  BAD_ALIAS: {
    message: "has an alias (`*…`) that can't be read",
    hint: "put a text that begins with * in quotes",
  },
  RESOURCE_EXHAUSTION: {
    message: "is nested too deeply to be read",
    hint: "no setting is nested that deeply",
  },
};
