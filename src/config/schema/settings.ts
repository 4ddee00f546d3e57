import { z } from "zod";
import type { SettingProblem, Path, NestedProblem } from "../problems.ts";

// Compiling a parser takes longer than one file with it saves.
z.config({ jitless: true });

/** Describes a value in words, for messages and docs. */
export interface Expectation {
  /** Completes `must be …`. */
  readonly expects: string;
  readonly hint?: string;
  /** Regular expression of valid texts; editors check it, too. */
  readonly pattern?: string;
  /** The value is a secret: never expanded into the tree, never repeated. */
  readonly isSecret?: true;
  /** A user may write a secret here by mistake: never repeated. */
  readonly isHidden?: true;
  /** The value is SQL: the environment must not become part of it. */
  readonly isSql?: true;
  readonly isDuration?: true;
  /** The value names another part of the file. */
  readonly names?: PartName;
}

/** A part of the file that a setting can refer to. */
export interface PartName {
  readonly part: "connection" | "input" | "job" | "search";
  /** Types of which the named job must be. */
  readonly jobTypes?: readonly string[];
  /** True if the setting uses the named job's answers, so both must read the same input. */
  readonly usesAnswers?: true;
}

/** Duration in milliseconds. */
export type Milliseconds = number & z.core.$brand<"Milliseconds">;

const expectations = z.registry<Expectation>();

/** Attaches an expectation to a schema. For optional or default values, it belongs to the inner schema. */
export function setting<S extends z.ZodType>(schema: S, expectation: Expectation): S {
  expectations.add(schema, expectation);
  return schema;
}

export function expectationOf(schema: z.core.$ZodType): Expectation | undefined {
  return expectations.get(schema);
}

/**
 * A text that is not blank and has the pattern of its expectation. `wrong` returns true or a problem if invalid, false or
 * null if valid.
 */
export function text(expectation: Expectation, wrong?: (value: string) => SettingProblem | boolean | null) {
  const pattern = expectation.pattern === undefined ? null : new RegExp(expectation.pattern);
  const schema = z.string().check((context) => {
    const found = context.value.trim() === "" || (wrong?.(context.value) ?? false);
    if (found === false && (pattern?.test(context.value) ?? true)) return;
    const problem = typeof found === "boolean" ? undefined : found;
    context.issues.push({ code: "custom", input: context.value, params: { problem } });
  });
  return setting(schema, expectation);
}

export function choice<const Values extends readonly [string, ...string[]]>(values: Values, hint?: string) {
  const expects = values.length === 1 ? `\`${values[0]}\`` : `one of ${values.join(", ")}`;
  return setting(z.enum(values), { expects, ...(hint === undefined ? {} : { hint }) });
}

/** A whole number within bounds, both inclusive. */
export function wholeNumber(min: number, max: number) {
  const expects =
    max === Number.MAX_SAFE_INTEGER
      ? `a whole number, ${min} or more`
      : `a whole number from ${min} to ${max}`;
  return setting(z.int().min(min).max(max), { expects });
}

export function flag() {
  return setting(z.boolean(), { expects: "true or false" });
}

/** A ratio from 0 to 1, both inclusive. */
export function ratio() {
  return setting(z.number().min(0).max(1), {
    expects: "a number from 0 to 1",
    hint: "0.2 means 20 percent",
  });
}

/** A number above zero, to a million. */
export function positiveNumber() {
  return setting(z.number().positive().max(1_000_000), { expects: "a number above 0, at most 1000000" });
}

/** A list without duplicates, with at least `least` entries. */
export function listOf<S extends z.ZodType>(item: S, expects: string, least = 0) {
  const schema = z
    .array(item)
    .min(least)
    .check((context) => {
      const seen = new Set<string>();
      for (const [position, value] of context.value.entries()) {
        const content = JSON.stringify(value);
        if (seen.has(content)) {
          const problem: SettingProblem = { message: "is a duplicate", hint: "remove it" };
          context.issues.push({ code: "custom", input: value, path: [position], params: { problem } });
        }
        seen.add(content);
      }
    });
  return setting(schema, { expects });
}

/** One entry, or a list of at least one; the output is a list. */
export function oneOrMore<S extends z.ZodType<string>>(item: S) {
  const one = expectationOf(item);
  const words = { ...one, expects: `${one?.expects ?? "an entry"}, or a list of at least one` };
  return setting(z.union([item, setting(listOf(item, words.expects, 1), words)]), words).transform(
    (value): readonly string[] => [value].flat(),
  );
}

/** Form of the names of inputs, jobs, connections, destinations and searches. */
export const NAME = /^[a-z][a-z0-9_]{0,62}$/;

/** Entries by names that the user chooses; they become column values (`source`, `job`) and metric labels. */
export function byName<S extends z.ZodType>(entry: S) {
  return z.record(z.string().regex(NAME), entry);
}

/** Entries of a parsed mapping that are set. */
export function setEntries<T>(mapping: Readonly<Record<string, T | undefined>>): readonly [string, T][] {
  return Object.entries(mapping).filter((entry): entry is [string, T] => entry[1] !== undefined);
}

export type Schema = z.core.$ZodType;

/** Removes optional, default and transform wrappers. */
function unwrap(schema: Schema): Schema {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return unwrap(schema.def.innerType);
  }
  if (schema instanceof z.ZodPipe) return unwrap(schema.def.in);
  return schema;
}

/** Alternatives of a union; a schema that is not a union is its only alternative. */
export function optionsOf(schema: Schema): readonly Schema[] {
  const inner = unwrap(schema);
  return inner instanceof z.ZodUnion ? inner.def.options.map(unwrap) : [inner];
}

/** Alternative for a value, by discriminator or kind (text, list, mapping). */
export function optionFor(schema: Schema, value: unknown): Schema | null {
  const inner = unwrap(schema);
  if (!(inner instanceof z.ZodUnion)) return inner;
  const options = optionsOf(inner);
  if (inner instanceof z.ZodDiscriminatedUnion) {
    const type = entryOf(value, inner.def.discriminator);
    return options.find((option) => discriminatorOf(option, inner.def.discriminator) === type) ?? null;
  }
  return options.find((option) => isOfKind(option, value)) ?? null;
}

/** Discriminator value of an alternative (`resolve` for jobs of that type). */
export function discriminatorOf(option: Schema, key: string): unknown {
  const literal = option instanceof z.ZodObject ? option.def.shape[key] : undefined;
  return literal instanceof z.ZodLiteral ? literal.def.values[0] : undefined;
}

/** Schema at a path in the file; null if there is none. */
export function schemaAt(root: Schema, path: readonly PropertyKey[], value: unknown): Schema | null {
  const [step, ...rest] = path;
  if (step === undefined) return unwrap(root);
  const below = optionFor(root, value);
  const next = below === null ? undefined : childOf(below, step);
  return next ? schemaAt(next, rest, entryOf(value, step)) : null;
}

/** True for a mapping, such as a section of the file. */
export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Mapping in the file at a path; empty if there is none. */
export function mappingAt(
  value: unknown,
  ...path: readonly PropertyKey[]
): Readonly<Record<string, unknown>> {
  const found = valueAt(value, path);
  return isMapping(found) ? found : {};
}

export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce(entryOf, value);
}

function entryOf(value: unknown, step: PropertyKey): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
  return (value as Record<PropertyKey, unknown>)[step]; // an own property, of whatever kind
}

/** Keys of a mapping; empty for other schemas and for mappings with arbitrary names. */
export function keysOf(schema: Schema | null): readonly string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.def.shape) : [];
}

function childOf(schema: Schema, step: PropertyKey): Schema | undefined {
  if (schema instanceof z.ZodObject && typeof step === "string") {
    return Object.hasOwn(schema.def.shape, step) ? schema.def.shape[step] : undefined;
  }
  if (schema instanceof z.ZodRecord) return schema.def.valueType;
  if (schema instanceof z.ZodArray) return schema.def.element;
  return undefined;
}

function isOfKind(schema: Schema, value: unknown): boolean {
  if (schema instanceof z.ZodArray) return Array.isArray(value);
  if (schema instanceof z.ZodObject || schema instanceof z.ZodRecord) return isMapping(value);
  return typeof value !== "object";
}

/** Replaces every text at a path known to the schema. Returns a copy of the file. */
export function mapTexts(
  root: Schema,
  tree: object,
  replace: (text: string, place: TextPlace) => string,
): object {
  function visit(value: unknown, path: Path, within: TextPlace["within"]): unknown {
    if (Array.isArray(value)) return value.map((item, position) => visit(item, [...path, position], within));
    if (isMapping(value)) {
      const entries = Object.entries(value);
      return Object.fromEntries(entries.map(([key, item]) => [key, visit(item, [...path, key], value)]));
    }
    const schema = typeof value === "string" ? schemaAt(root, path, tree) : null;
    if (typeof value !== "string" || schema === null) return value;
    return replace(value, { path, within, expectation: expectationOf(schema) });
  }
  return Object(visit(tree, [], {}));
}

/** Adds the defaults that a part of the file leaves out, in the form of the file. */
export function fillDefaults(schema: Schema, value: unknown): unknown {
  if (value === undefined) {
    const hasDefault = schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault;
    return hasDefault ? fillDefaults(schema.def.innerType, schema.def.defaultValue) : undefined;
  }
  const option = optionFor(schema, value);
  if (option instanceof z.ZodArray && Array.isArray(value)) {
    return value.map((item) => fillDefaults(option.def.element, item));
  }
  if (option === null || !isMapping(value)) return value;
  const keys = new Set([...Object.keys(value), ...keysOf(option)]);
  const entries = [...keys].map((key): [string, unknown] => {
    const child = childOf(option, key);
    return [key, child ? fillDefaults(child, value[key]) : value[key]];
  });
  return Object.fromEntries(entries.filter(([, filled]) => filled !== undefined));
}

interface TextPlace {
  readonly path: Path;
  readonly expectation: Expectation | undefined;
  /** Mapping that the setting is in. */
  readonly within: Readonly<Record<string, unknown>>;
}

/** Path known to the schema; names chosen by users are `NAME`. */
interface KeyPath {
  readonly path: readonly string[];
  readonly schema: Schema;
}

/** All paths of a schema, once per alternative, parents first. */
export function keyPaths(schema: Schema, path: readonly string[] = []): readonly KeyPath[] {
  return optionsOf(schema).flatMap((option) => {
    if (option instanceof z.ZodObject) {
      return Object.entries(option.def.shape).flatMap(([key, child]) => {
        const childPath = [...path, key];
        return [{ path: childPath, schema: child }, ...keyPaths(child, childPath)];
      });
    }
    if (option instanceof z.ZodRecord) return keyPaths(option.def.valueType, [...path, "NAME"]);
    if (option instanceof z.ZodArray) return keyPaths(option.def.element, path);
    return [];
  });
}

type Camel<Key extends string> = Key extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Key;

type ProgramName<Key extends string, Value> =
  NonNullable<Value> extends Milliseconds ? `${Camel<Key>}Ms` : Camel<Key>;

type ProgramValue<Value> = Value extends undefined ? null : Value extends Milliseconds ? number : Value;

/** Parsed mapping: keys in camelCase, durations as `…Ms`, null for missing settings. */
export type Settings<Shape extends z.ZodRawShape> = {
  readonly [Key in keyof Shape & string as ProgramName<Key, z.output<Shape[Key]>>]: ProgramValue<
    z.output<Shape[Key]>
  >;
};

/** Rule on several settings of a mapping, whose valid values are parsed; the others are as written. */
type Rule = (value: Readonly<Record<string, unknown>>) => readonly NestedProblem[];

/** Adds a rule. It also runs if some settings are invalid, so that all problems are found at once. */
export function withRule<S extends z.ZodType>(schema: S, rule: Rule): S {
  return schema.superRefine(
    (value, context) => {
      for (const { path, ...problem } of isMapping(value) ? rule(value) : []) {
        context.addIssue({ code: "custom", path: [...path], params: { problem } });
      }
    },
    { when: () => true },
  );
}

/** Declares a mapping by the keys in the file; the output is {@link Settings}. */
export function settings<Shape extends z.ZodRawShape>(
  shape: Shape,
  rule: Rule = () => [],
  expectation: Expectation | null = null,
) {
  const names = Object.entries(shape).map(([key, schema]) => [key, programName(key, schema)] as const);
  const schema = withRule(z.strictObject(shape), rule);
  if (expectation) setting(schema, expectation);
  return schema.transform((value) => {
    const values: Readonly<Record<string, unknown>> = value;
    // One entry per key of the shape, named as the type says.
    return Object.fromEntries(names.map(([key, name]) => [name, values[key] ?? null])) as Settings<Shape>;
  });
}

function programName(key: string, schema: z.core.$ZodType): string {
  const camel = key.replaceAll(/_([a-z])/gu, (_match, letter: string) => letter.toUpperCase());
  return expectationOf(unwrap(schema))?.isDuration ? `${camel}Ms` : camel;
}
