import { z } from "zod";
import { type Complaint, type Path, type Problems, suggest, textOf } from "./problems.ts";
import {
  discriminatorOf,
  expectationOf,
  keyPaths,
  keysOf,
  optionFor,
  optionsOf,
  type Schema,
  schemaAt,
  valueAt,
  isMapping,
} from "./schema/settings.ts";
import { meantReference } from "./variables.ts";
import type { YamlSource } from "./yaml.ts";

const FALLBACK_HINT = "docs/configuration.md describes this setting";

/** Number of settings that a hint lists. */
const FEW = 5;

/** A number of records as text: `20k`, `20_000`, `20000 records`. */
const COUNT_AS_TEXT = /^\d[\d_,.]*(?:k|m|mio|records?|rows?|\s)*$/i;

type Issue = z.core.$ZodIssue;

/** Converts the schema's issues to problems, without repeating the value. */
export function explainIssues(
  root: Schema,
  value: unknown,
  issues: readonly Issue[],
  problems: Problems,
): void {
  for (const issue of issues) explainIssue(root, value, issue, problems);
}

function explainIssue(root: Schema, value: unknown, issue: Issue, problems: Problems): void {
  const path = issue.path.map((step) => (typeof step === "symbol" ? "?" : step));
  const schema = schemaAt(root, path, value);
  const found = valueAt(value, path);
  if (issue.code === "unrecognized_keys") {
    for (const key of issue.keys) {
      const { message, hint } = unknownKey(root, path, value, key);
      problems.add([...path, key], message, hint);
    }
    return;
  }
  if (issue.code === "invalid_union" && schema instanceof z.ZodUnion) {
    const meant = optionFor(schema, found);
    const branch = meant === null ? undefined : issue.errors[optionsOf(schema).indexOf(meant)];
    if (branch && branch.length > 0) {
      const nested = branch.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
      explainIssues(root, value, nested, problems);
      return;
    }
  }
  const { message, hint } = complaintOf(root, path, schema, found, value, issue);
  problems.add(path, message, hint);
}

function complaintOf(
  root: Schema,
  path: Path,
  schema: Schema | null,
  found: unknown,
  value: unknown,
  issue: Issue,
): Complaint {
  const reference = typeof found === "string" ? meantReference(found) : null;
  if (reference !== null && schema instanceof z.ZodString) {
    return {
      message: "is not a reference to an environment variable",
      hint: `did you mean ${reference}?`,
    };
  }
  if (issue.code === "custom") {
    const complaint: unknown = issue.params?.["complaint"];
    if (isComplaint(complaint)) return complaint;
  }
  const types = discriminators(root, path, value);
  const words = types.length > 0 ? { expects: `one of ${types.join(", ")}` } : wordsOf(schema);
  if (found === undefined) return { message: "is missing", hint: `it must be ${words.expects}` };
  const meantType = typeof found === "string" ? suggest(found, types) : null;
  if (meantType !== null) return { message: "is not a known type", hint: `did you mean ${meantType}?` };
  return {
    message: `must be ${words.expects}`,
    hint: hintFor(schema, found, types) ?? words.hint ?? FALLBACK_HINT,
  };
}

/** Hint for a value of the wrong kind. */
function hintFor(schema: Schema | null, found: unknown, types: readonly string[]): string | undefined {
  if (typeof found === "string") {
    const meant = suggest(found, schema instanceof z.ZodEnum ? schema.options.map(String) : types);
    if (meant !== null) return `did you mean ${meant}?`;
    if (/^[“”„‘’«»]/.test(found)) return `use straight quotes: "…"`;
    if (schema instanceof z.ZodBoolean) {
      return /^(?:yes|no|on|off|y|n)$/i.test(found)
        ? "YAML 1.2 reads yes and no as text: write true or false"
        : "write true or false, without quotes";
    }
    const isCount = schema instanceof z.ZodNumber && expectationOf(schema)?.hint === undefined;
    const isCountOrAmount = schema instanceof z.ZodUnion && optionsOf(schema)[0] instanceof z.ZodNumber;
    if ((isCount && /\d/.test(found)) || (isCountOrAmount && COUNT_AS_TEXT.test(found))) {
      return Number.isFinite(Number(found))
        ? "write the number without quotes"
        : "write only digits, without unit or separators: 20000";
    }
    if (schema instanceof z.ZodArray) return "write a list: [ … ]";
  }
  if (Array.isArray(found) && schema instanceof z.ZodString) return "write one value instead of a list";
  const keys = keysOf(schema);
  if (keys.length > 0 && keys.length <= FEW) return `its settings are ${keys.join(", ")}`;
  const isBare = typeof found === "number" || typeof found === "boolean";
  return isBare && schema instanceof z.ZodString && expectationOf(schema)?.hint === undefined
    ? "put it in quotes"
    : undefined;
}

function wordsOf(schema: Schema | null): { readonly expects: string; readonly hint?: string } {
  const expectation = schema && expectationOf(schema);
  if (expectation) return expectation;
  if (schema instanceof z.ZodArray) return { expects: "a list" };
  if (schema instanceof z.ZodLiteral) return { expects: schema.def.values.map(String).join(" or ") };
  if (schema instanceof z.ZodUnion && !(schema instanceof z.ZodDiscriminatedUnion)) {
    return {
      expects: optionsOf(schema)
        .map((option) => wordsOf(option).expects)
        .join(", or "),
    };
  }
  return { expects: "a mapping of keys to values", hint: "indent its keys below it" };
}

/** Possible values of the discriminator `type` if the path refers to one. */
function discriminators(root: Schema, path: Path, value: unknown): readonly string[] {
  const parent = schemaAt(root, path.slice(0, -1), value);
  if (!(parent instanceof z.ZodDiscriminatedUnion) || parent.def.discriminator !== path.at(-1)) return [];
  return optionsOf(parent).map((option) => String(discriminatorOf(option, parent.def.discriminator)));
}

function unknownKey(root: Schema, path: Path, tree: unknown, key: string): Complaint {
  const schema = schemaAt(root, path, tree);
  const known = keysOf(schema && optionFor(schema, valueAt(tree, path)));
  const meant = suggest(key, known);
  const message = path.length === 0 ? "is not a setting" : `is not a setting of ${textOf(path)}`;
  if (meant !== null) return { message, hint: `did you mean ${meant}?` };
  const section = path.length === 0 ? sectionFor(root, valueAt(tree, [key])) : null;
  if (section !== null) return { message, hint: `indent it below ${section}` };
  const types = typesWith(schema, key);
  if (types.length > 0) return { message, hint: `it belongs to type ${types.join(", ")}` };
  const elsewhere = keyPaths(root)
    .filter((other) => other.path.at(-1) === key)
    .map((other) => textOf(other.path));
  if (elsewhere.length > 0)
    return { message, hint: `did you mean ${[...new Set(elsewhere)].slice(0, 3).join(", ")}?` };
  return { message, hint: `the settings here are ${known.join(", ")}` };
}

/** Other alternatives of a union that have this key. */
function typesWith(schema: Schema | null, key: string): readonly string[] {
  if (!(schema instanceof z.ZodDiscriminatedUnion)) return [];
  return optionsOf(schema)
    .filter((option) => keysOf(option).includes(key))
    .map((option) => String(discriminatorOf(option, schema.def.discriminator)));
}

function isComplaint(value: unknown): value is Complaint {
  return typeof value === "object" && value !== null && "message" in value;
}

/** Section whose entries have names (`jobs`), with the settings that an entry can have. */
interface Section {
  readonly name: string;
  readonly settings: ReadonlySet<string>;
}

/**
 * Reports sections that are lists, and settings that are indented like the entry that they belong to, once per section.
 * Returns the file without them, to avoid more complaints about them.
 */
export function reportIndentation(
  root: Schema,
  source: YamlSource,
  tree: object,
  problems: Problems,
): object {
  const sections = sectionsOf(root).map(
    (section) => [section.name, placedEntries(section, source, tree, problems)] as const,
  );
  const given = sections.filter(([name]) => Object.hasOwn(tree, name));
  return { ...tree, ...Object.fromEntries(given) };
}

function placedEntries(
  { name, settings }: Section,
  source: YamlSource,
  tree: object,
  problems: Problems,
): unknown {
  const section = valueAt(tree, [name]);
  if (Array.isArray(section)) {
    const hint = "write `NAME:` instead of `- name: NAME`";
    problems.add([name], "is a list, and must be a mapping", hint);
    return {};
  }
  if (!isMapping(section)) return section;
  const misplaced = Object.entries(section).find(([key, value]) => settings.has(key) && !isMapping(value));
  if (!misplaced) return section;
  const empty = source.complaints.find(({ path }) => path.length === 2 && path[0] === name);
  if (empty) problems.add(empty.path, "is empty", "indent its settings below it");
  else {
    const hint = "write `NAME:` above the settings, and indent them below it";
    problems.add([name, misplaced[0]], `is a setting, not a name in ${name}`, hint);
  }
  return Object.fromEntries(Object.entries(section).filter(([key]) => !settings.has(key)));
}

/** Section that an entry at the top of the file belongs to, by its settings; null if unclear. */
function sectionFor(root: Schema, entry: unknown): string | null {
  if (!isMapping(entry)) return null;
  // Entries after it may have become part of it.
  const keys = Object.entries(entry).flatMap(([key, value]) => (isMapping(value) ? [] : [key]));
  const fitting = sectionsOf(root).filter(
    ({ settings }) => keys.length > 0 && keys.every((key) => settings.has(key)),
  );
  return fitting.length === 1 ? (fitting[0]?.name ?? null) : null;
}

function sectionsOf(root: Schema): readonly Section[] {
  const below = keyPaths(root).filter(({ path }) => path.length === 3 && path[1] === "NAME");
  const names = [...new Set(below.map(({ path }) => path[0] ?? ""))];
  return names.map((name) => ({
    name,
    settings: new Set(below.filter(({ path }) => path[0] === name).map(({ path }) => path[2] ?? "")),
  }));
}
