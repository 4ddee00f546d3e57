import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, visit } from "yaml";
import type { Problem } from "../errors.ts";
import { type SettingProblem, type Path, textOf } from "./problems.ts";

/** The configuration as plain values, with their lines. */
interface YamlSource {
  /** Mappings are objects, lists are arrays. Null for an empty file, and for one that can't be read. */
  readonly value: unknown;
  /** 1-based line of the longest existing prefix of a path; 1 if there is none. */
  readonly lineOf: (path: Path) => number;
  readonly problems: readonly Problem[];
  /** True if the values can be validated although there are problems. */
  readonly isReadable: boolean;
}

/** Errors that don't affect the structure. Others cause follow-up errors, which are not reported. */
const HARMLESS = ["DUPLICATE_KEY", "MULTIPLE_DOCS", "BAD_DQ_ESCAPE", "TAG_RESOLVE_FAILED"];

/** Reads YAML, even if it has errors. Never throws. */
export function readYaml(text: string, fileName: string): YamlSource {
  const lineCounter = new LineCounter();
  // Warnings of the parser would quote the text.
  const options = { lineCounter, prettyErrors: false, merge: true, logLevel: "error" } as const;
  const document = parseDocument(text, options);
  const lineAt = (offset: number) => lineCounter.linePos(offset).line;
  const found = [...document.errors, ...document.warnings].toSorted((a, b) => a.pos[0] - b.pos[0]);
  const broken = found.find(({ code }) => !HARMLESS.includes(code));
  const problems = found.flatMap((error): Problem[] => {
    const { code, pos } = error;
    if (error !== broken && !HARMLESS.includes(code)) return [];
    if (code === "DUPLICATE_KEY") return [duplicateOf(document, pos[0], { fileName, lineAt })];
    const openQuote = code === "MISSING_CHAR" ? startOfOpenQuote(document, pos[0]) : null;
    const openBracket = code === "BAD_INDENT" ? startOfOpenBracket(document, pos[0], text) : null;
    const line = lineAt(openQuote ?? openBracket ?? pos[0]);
    const sourceLine = text.split("\n")[line - 1] ?? "";
    const bracket = openBracket === null ? null : (text[openBracket] ?? null);
    const problem = openQuote === null ? problemOf(code, sourceLine, bracket) : OPEN_QUOTE;
    return [{ path: fileName, line, ...problem }];
  });
  const lineOf = (path: Path) => lineAt(offsetOf(document, path));
  if (broken) return { value: null, problems, isReadable: false, lineOf };
  for (const offset of offsetsOfPrototypes(document)) {
    problems.push({ path: fileName, line: lineAt(offset), ...PROTOTYPE });
  }
  const value = valueOf(document);
  if (value !== undefined) return { value, problems, isReadable: true, lineOf };
  const line = lineAt(startOfUnknownAlias(document));
  return {
    value: null,
    problems: [...problems, { path: fileName, line, ...BAD_ALIAS }],
    isReadable: false,
    lineOf,
  };
}

/** Values of a document; undefined if its aliases can't be resolved, contain themselves or multiply its content. */
function valueOf(document: Document.Parsed): unknown {
  try {
    const value: unknown = document.toJS();
    // Fails for a value that contains itself.
    JSON.stringify(value);
    return value;
  } catch {
    return undefined;
  }
}

/** Offset of the key or list item at the longest existing prefix of a path. */
function offsetOf(document: Document.Parsed, path: Path): number {
  let offset = 0;
  let node: unknown = document.contents;
  for (const step of path) {
    const target = isAlias(node) ? node.resolve(document) : node;
    const pair = isMap(target)
      ? target.items.find(({ key }) => isScalar(key) && String(key.value) === step)
      : undefined;
    node = isSeq(target) ? target.items[Number(step)] : pair?.value;
    const place: unknown = pair?.key ?? node;
    const isNode = isScalar(place) || isMap(place) || isSeq(place) || isAlias(place);
    if (!isNode || !place.range) break;
    offset = place.range[0];
  }
  return offset;
}

/** Starts of keys named `__proto__`, which the validation of names would skip. */
function offsetsOfPrototypes(document: Document.Parsed): readonly number[] {
  const offsets: number[] = [];
  visit(document, {
    Pair(_, { key }) {
      if (isScalar(key) && key.value === "__proto__") offsets.push(key.range?.[0] ?? 0);
    },
  });
  return offsets;
}

/** Start of an unclosed quote, which the parser reports at the end of the file. */
function startOfOpenQuote(document: Document.Parsed, end: number): number | null {
  let start: number | null = null;
  visit(document, {
    Scalar(_, { type, range }) {
      if (type?.startsWith("QUOTE") && range && range[1] >= end - 1) start = range[0];
    },
  });
  return start;
}

/** Start of the innermost list or mapping in brackets that isn't closed before an error; null if there is none. */
function startOfOpenBracket(document: Document.Parsed, errorAt: number, text: string): number | null {
  let start: number | null = null;
  visit(document, {
    Collection(_, { flow, range }) {
      if (flow !== true || !range || range[0] >= errorAt) return;
      if (!/[\]}]/.test(text[range[1] - 1] ?? "")) start = range[0];
    },
  });
  return start;
}

/** Problem of a key that repeats one of its mapping. Only a key that looks like a name is shown. */
function duplicateOf(
  document: Document.Parsed,
  offset: number,
  { fileName, lineAt }: { readonly fileName: string; readonly lineAt: (offset: number) => number },
): Problem {
  const problem: Problem = { path: fileName, line: lineAt(offset), ...DUPLICATE_KEY };
  visit(document, {
    Map(_, { items }) {
      const keys = items.flatMap(({ key }) => (isScalar(key) && key.range ? [key] : []));
      const again = keys.find(({ range }) => range?.[0] === offset);
      const first = again && keys.find(({ value }) => value === again.value);
      if (!first?.range) return undefined;
      const message = `is defined twice (also on line ${lineAt(first.range[0])})`;
      Object.assign(problem, { path: textOf([String(first.value)]), message });
      return visit.BREAK;
    },
  });
  return problem;
}

/** Start of the first alias without an anchor before it; 0 if there is none. */
function startOfUnknownAlias(document: Document.Parsed): number {
  let start = 0;
  visit(document, {
    Alias(_, alias) {
      if (alias.resolve(document) !== undefined) return undefined;
      start = alias.range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return start;
}

const OPEN_QUOTE: SettingProblem = {
  message: "has a quote that is not closed",
  hint: "close it on the same line",
};

const DUPLICATE_KEY: SettingProblem = {
  message: "has a key that its section already has",
  hint: "remove or rename one of them",
};

const PROTOTYPE: SettingProblem = { message: "has a key `__proto__`", hint: "choose another name" };

const BAD_ALIAS: SettingProblem = {
  message: "has an alias (`*name` or `<<`) that can't be resolved",
  hint: "set `&name` before it and outside of it, on a mapping for `<<`; quote text that starts with *",
};

/** Describes a syntax error. The parser's own messages quote the text, and so possibly a key. */
function problemOf(code: string, sourceLine: string, openBracket: string | null): SettingProblem {
  // Inside { … } and [ … ], YAML parses an unquoted ${NAME} as a mapping.
  if (/[{[,][^"']*\$\{/.test(sourceLine)) {
    return { message: "is not valid YAML here", hint: 'inside { } and [ ] quote references: "${NAME}"' };
  }
  if (/(?:^|[:,[-])\s+\*/.test(sourceLine)) {
    return {
      message: "has unquoted text that starts with *, which YAML reserves",
      hint: 'quote it: "*/15 * * * *"',
    };
  }
  if (openBracket !== null) {
    const end = openBracket === "[" ? "]" : "}";
    return {
      message: `has a ${openBracket} that is not closed`,
      hint: `close it with ${end} on the same line`,
    };
  }
  return (
    SYNTAX_PROBLEMS[code] ?? {
      message: "is not valid YAML here",
      hint: "check quotes, brackets and indentation, here and in the line before",
    }
  );
}

const SYNTAX_PROBLEMS: Readonly<Record<string, SettingProblem>> = {
  TAB_AS_INDENT: { message: "has a tab in its indentation", hint: "indent with spaces; YAML allows no tabs" },
  BAD_INDENT: {
    message: "is not valid YAML here",
    hint: "align it with the lines around it, and close quotes and brackets before it",
  },
  MULTIPLE_DOCS: {
    message: "contains several YAML documents",
    hint: "keep one document: remove the line `---` and the other document",
  },
  BAD_SCALAR_START: {
    message: "has text that starts with a character reserved by YAML",
    hint: "quote the text",
  },
  TAG_RESOLVE_FAILED: { message: "has an unknown tag (`!…`)", hint: "remove the tag; quote text" },
};
