import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
} from "yaml";
import type { Complaint, Path } from "./problems.ts";
import { type SyntaxProblems, syntaxProblems } from "./yaml-syntax.ts";

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
