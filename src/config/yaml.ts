import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  visit,
} from "yaml";
import type { Complaint, Path } from "./problems.ts";
import type { Problem } from "../errors.ts";

/** The configuration as plain values, with their lines. */
export interface YamlSource {
  /** Mappings are objects, lists are arrays. Values with a problem are omitted. Null for an empty file. */
  readonly value: unknown;
  /** 1-based line of the longest existing prefix of a path; 1 if there is none. */
  readonly lineOf: (path: Path) => number;
  /** Invalid values: empty ones, unusual keys, cycles. */
  readonly complaints: readonly { readonly path: Path; readonly complaint: Complaint }[];
  readonly syntax: SyntaxProblems;
}

/** Maximum nodes in a file, because aliases can multiply its content. */
const MAX_NODES = 20_000;

const MAX_DEPTH = 40;

/** Reads YAML, even if it has errors. Never throws. */
export function readYaml(text: string, fileName: string): YamlSource {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false, uniqueKeys: true });
  const syntax = syntaxProblems(document, text, fileName, (offset) => lineCounter.linePos(offset).line);
  const reader = createReader(document, (offset) => lineCounter.linePos(offset).line);
  const value = document.contents === null ? null : reader.read(document.contents, []);
  return {
    value: value ?? null,
    complaints: reader.complaints,
    syntax,
    lineOf(path) {
      for (let length = path.length; length > 0; length--) {
        const line = reader.lines.get(keyOf(path.slice(0, length)));
        if (line !== undefined) return line;
      }
      return 1;
    },
  };
}

/** Problems of a text that isn't valid YAML. */
interface SyntaxProblems {
  readonly problems: readonly Problem[];
  /** True if the rest of the text can still be validated. */
  readonly isReadable: boolean;
}

/** Errors that don't affect the structure. Others cause follow-up errors, which are not reported. */
const harmless: readonly ErrorCode[] = ["MULTIPLE_DOCS", "BAD_DQ_ESCAPE", "TAG_RESOLVE_FAILED"];

/** Describes syntax errors without the parser's messages, which quote the text and so possibly a key. */
function syntaxProblems(
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

function keyOf(path: Path): string {
  return JSON.stringify(path);
}

function isNull(node: unknown): boolean {
  return node === null || (isScalar(node) && node.value === null);
}

/** Converts nodes to values. Unlike `toJS`, doesn't throw on cycles or warn about unusual keys. */
function createReader(document: Document.Parsed, lineAt: (offset: number) => number) {
  const lines = new Map<string, number>();
  const complaints: { path: Path; complaint: Complaint }[] = [];
  const open = new Set<Node>();
  let nodes = 0;

  const complain = (path: Path, message: string, hint: string) => {
    complaints.push({ path, complaint: { message, hint } });
    return undefined;
  };

  function read(node: unknown, path: Path): unknown {
    nodes += 1;
    if (nodes === MAX_NODES)
      complain([], "is too large: its aliases multiply its content", "use fewer aliases");
    if (nodes >= MAX_NODES) return undefined;
    if (path.length > MAX_DEPTH) return complain(path, "is nested too deeply", "reduce the nesting");
    const target = isAlias(node) ? node.resolve(document) : node;
    if (target === undefined)
      return complain(
        path,
        "is an alias of an anchor that isn't set before it",
        "set &anchor first; quote a text that starts with *",
      );
    if (!isMap(target) && !isSeq(target)) return readScalar(isScalar(target) ? target.value : null, path);
    if (open.has(target))
      return complain(path, "is an alias of a value that contains it", "remove the alias");
    open.add(target);
    const value = isMap(target) ? readMap(target.items, path) : readList(target.items, path);
    open.delete(target);
    return value;
  }

  function readScalar(value: unknown, path: Path): unknown {
    if (value === null || value === undefined)
      return complain(path, "is empty", "give it a value, or remove the line");
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
    return complain(path, "has an unsupported type", "write text, a number, true or false");
  }

  function readList(items: readonly unknown[], path: Path): unknown[] {
    const values: unknown[] = [];
    for (const item of items) {
      const childPath = [...path, values.length];
      noteLine(childPath, item);
      const value = read(item, childPath);
      if (value !== undefined) values.push(value);
    }
    return values;
  }

  function readMap(items: readonly Pair[], path: Path): Record<string, unknown> | undefined {
    const values = new Map<string, unknown>();
    const merged: unknown[] = [];
    const seen = new Set<string>();
    let empty: Path | null = null;
    for (const { key, value } of items) {
      const name = isScalar(key) ? key.value : undefined;
      if (name === "<<") {
        merged.push(value);
        continue;
      }
      if (isMap(key)) return complain(path, "is a template: {{ … }}", "use ${NAME}: an environment variable");
      if (typeof name === "number" && isNull(value)) {
        return complain(
          path,
          "has a comma that separates two entries",
          "write numbers without a comma: 20000",
        );
      }
      if (typeof name !== "string" || name === "" || name === "__proto__") {
        const childPath = [...path, "?"];
        noteLine(childPath, key);
        complain(childPath, "is not a valid key", "keys are text; quote numbers and true/false");
        continue;
      }
      const childPath = [...path, name];
      if (seen.has(name)) {
        reportSecond(childPath, key, empty);
        continue;
      }
      seen.add(name);
      noteLine(childPath, key);
      if (isNull(value)) empty ??= childPath;
      const content = read(value, childPath);
      if (content !== undefined) values.set(name, content);
    }
    for (const node of merged) mergeInto(values, node, path);
    return Object.fromEntries(values);
  }

  /** Reports a key that its mapping already has. After an empty key, the reason is the indentation of that one's settings. */
  function reportSecond(path: Path, key: unknown, empty: Path | null): void {
    // First, so that it replaces the complaint that the key is empty.
    const complaint: Complaint = { message: "is empty", hint: "indent its settings below it" };
    if (empty !== null) complaints.unshift({ path: empty, complaint });
    else complain(path, `is set again in line ${lineOfNode(key)}`, "remove or rename one of them");
  }

  /** Merges `<<: *defaults` or `<<: [*a, *b]`: the mapping's own values have precedence, then earlier ones. */
  function mergeInto(values: Map<string, unknown>, node: unknown, path: Path): void {
    for (const source of isSeq(node) ? node.items : [node]) {
      const content = read(source, path);
      if (typeof content !== "object" || content === null || Array.isArray(content)) {
        complain([...path, "<<"], "must refer to mappings", "write `<<: *anchor`");
        continue;
      }
      for (const [name, value] of Object.entries(content)) {
        if (!values.has(name)) values.set(name, value);
      }
    }
  }

  function noteLine(path: Path, node: unknown): void {
    const line = lineOfNode(node);
    if (line !== null) lines.set(keyOf(path), line);
  }

  function lineOfNode(node: unknown): number | null {
    const range = isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range : null;
    return range ? lineAt(range[0]) : null;
  }

  return { read, lines, complaints };
}
