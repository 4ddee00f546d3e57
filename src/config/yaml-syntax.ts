import { type Document, type ErrorCode, visit } from "yaml";
import type { Problem } from "../errors.ts";
import type { Complaint } from "./problems.ts";

/** Problems of a text that isn't valid YAML. */
export interface SyntaxProblems {
  readonly problems: readonly Problem[];
  /** True if the rest of the text can still be validated. */
  readonly isReadable: boolean;
}

/** Errors that don't affect the structure. Others cause follow-up errors, which are not reported. */
const harmless: readonly ErrorCode[] = ["MULTIPLE_DOCS", "BAD_DQ_ESCAPE", "TAG_RESOLVE_FAILED"];

/** Describes syntax errors without the parser's messages, which quote the text and so possibly a key. */
export function syntaxProblems(
  document: Document.Parsed,
  text: string,
  fileName: string,
  lineAt: (offset: number) => number,
): SyntaxProblems {
  const sourceLines = text.split("\n");
  const errors = [...document.errors, ...document.warnings]
    .filter(({ code }) => code !== "DUPLICATE_KEY") // reported by the reader, with both lines
    .toSorted((a, b) => a.pos[0] - b.pos[0]);
  const first = errors.findIndex(({ code }) => !harmless.includes(code));
  const reported = errors.filter(({ code }, i) => i === first || harmless.includes(code));
  const byLine = new Map<number, Problem>();
  for (const { code, pos } of reported) {
    const openQuote = code === "MISSING_CHAR" ? startOfOpenQuote(document, pos[0]) : null;
    const line = lineAt(openQuote ?? pos[0]);
    const { message, hint } =
      openQuote === null ? complaintOf(code, sourceLines[line - 1] ?? "") : UNCLOSED_QUOTE;
    if (!byLine.has(line)) {
      byLine.set(line, { path: fileName, message, line, hint });
    }
  }
  return { problems: [...byLine.values()], isReadable: first < 0 };
}

/** Start of an unclosed quote, which the parser reports at the end of the file. */
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

const UNCLOSED_QUOTE: Complaint = {
  message: "has a quote that is not closed",
  hint: "close it on the same line",
};

function complaintOf(code: ErrorCode, sourceLine: string): Complaint {
  // Inside { … } and [ … ], YAML parses an unquoted ${NAME} as a mapping.
  if (/[{[,][^"']*\$\{/.test(sourceLine)) {
    return {
      message: "is not valid YAML here",
      hint: 'inside { } and [ ] quote references: "${NAME}"',
    };
  }
  if (/^[ \t]*[\u00a0\u2000-\u200b\u3000\ufeff]/.test(sourceLine)) {
    return {
      message: "has a non-breaking space in its indentation",
      hint: "replace it with spaces; it often comes from a copied web page",
    };
  }
  if (/(?:^|[:,[-])\s+\*/.test(sourceLine)) return ASTERISK;
  return (
    complaints[code] ?? { message: "is not valid YAML here", hint: "check quotes, brackets and indentation" }
  );
}

const ASTERISK: Complaint = {
  message: "has unquoted text that starts with *, which YAML reserves",
  hint: 'quote it: "*/15 * * * *"',
};

const complaints: Partial<Record<ErrorCode, Complaint>> = {
  TAB_AS_INDENT: { message: "has a tab in its indentation", hint: "indent with spaces; YAML allows no tabs" },
  MULTIPLE_DOCS: {
    message: "contains several YAML documents",
    hint: "keep one document: remove the line `---` and the other document",
  },
  BAD_INDENT: {
    message: "is indented in a way that YAML can't read",
    hint: "align it with the lines around it",
  },
  BLOCK_AS_IMPLICIT_KEY: {
    message: "has a mapping where YAML doesn't allow one",
    hint: "quote text that contains `: `, and check the indentation",
  },
  MULTILINE_IMPLICIT_KEY: {
    message: "has a key without `: `",
    hint: "write `key: value`, with a space after the colon",
  },
  MISSING_CHAR: {
    message: "is missing a `:` after a key, or a closing bracket",
    hint: "check this line and the one before",
  },
  BAD_SCALAR_START: {
    message: "has text that starts with a character reserved by YAML",
    hint: "quote the text",
  },
  BAD_DQ_ESCAPE: {
    message: "has an unknown escape in double quotes",
    hint: "use single quotes, or double the backslash",
  },
  TAG_RESOLVE_FAILED: { message: "has an unknown tag (`!…`)", hint: "remove the tag; quote text" },
  BAD_ALIAS: ASTERISK,
  RESOURCE_EXHAUSTION: {
    message: "is nested too deeply",
    hint: "reduce the nesting",
  },
};
