import { z } from "zod";
import { foundText, type SettingProblem, type Path, type Problems, textOf } from "./problems.ts";
import { ENVIRONMENTS, suggest } from "../suggest.ts";
import {
  discriminatorOf,
  type Expectation,
  expectationOf,
  keyPaths,
  keysOf,
  optionFor,
  optionsOf,
  type Schema,
  schemaAt,
  valueAt,
} from "./schema/settings.ts";

const FALLBACK_HINT = "docs/configuration.md describes this setting";

type Issue = z.core.$ZodIssue;

/**
 * Converts the schema's issues to problems. Repeats a value only as `written` in the file, without variables, and only if it
 * can't be a secret.
 */
export function explainIssues(
  root: Schema,
  value: unknown,
  written: unknown,
  issues: readonly Issue[],
  problems: Problems,
): void {
  for (const issue of issues) {
    const path = issue.path.map((step) => (typeof step === "symbol" ? "?" : step));
    const schema = schemaAt(root, path, value);
    const found = valueAt(value, path);
    if (issue.code === "unrecognized_keys") {
      for (const key of issue.keys) {
        const { message, hint } = unknownKey(root, path, value, key);
        problems.add([...path, key], message, hint);
      }
      continue;
    }
    if (issue.code === "invalid_union" && schema instanceof z.ZodUnion) {
      const meant = optionFor(schema, found);
      const branch = meant === null ? [] : (issue.errors[optionsOf(schema).indexOf(meant)] ?? []);
      const nested = branch.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
      explainIssues(root, value, written, nested, problems);
      if (nested.length > 0) continue;
    }
    const types = discriminators(root, path, value);
    const { message, hint } = problemOf(issue, schema, found, types);
    problems.add(path, `${message}${isShown(schema) ? foundText(valueAt(written, path)) : ""}`, hint);
  }
}

/** True unless the schema, or one of its alternatives, is of a possible secret or of SQL. */
function isShown(schema: Schema | null): boolean {
  const options = schema === null ? [] : [schema, ...optionsOf(schema)];
  return options.every((option) => {
    const { isSecret, isHidden, isSql }: Partial<Expectation> = expectationOf(option) ?? {};
    return ![isSecret, isHidden, isSql].includes(true);
  });
}

function problemOf(
  issue: Issue,
  schema: Schema | null,
  found: unknown,
  types: readonly string[],
): SettingProblem {
  // As the checks of our schemas set it.
  const problem = issue.code === "custom" ? (issue.params?.["problem"] as SettingProblem | undefined) : null;
  if (problem) return problem;
  if (issue.code === "invalid_key") {
    const hint = "use lowercase letters, digits and _, starting with a letter; at most 63 characters";
    return { message: "is not a valid name", hint };
  }
  if (found === null) {
    return { message: "is empty", hint: "give it a value, indent its settings below it, or remove the line" };
  }
  const words = types.length > 0 ? { expects: `one of ${types.join(", ")}` } : wordsOf(schema);
  if (found === undefined) return { message: "is missing", hint: `it must be ${words.expects}` };
  const hint = hintFor(schema, found, types) ?? words.hint ?? FALLBACK_HINT;
  return { message: `must be ${words.expects}`, hint };
}

function hintFor(schema: Schema | null, found: unknown, types: readonly string[]): string | undefined {
  if (typeof found !== "string") {
    const isBare = typeof found === "number" || typeof found === "boolean";
    const isText = schema instanceof z.ZodString && expectationOf(schema)?.hint === undefined;
    return isBare && isText ? "put it in quotes" : undefined;
  }
  const meant = suggest(found, schema instanceof z.ZodEnum ? schema.options.map(String) : types);
  if (meant !== null) return `did you mean ${meant}?`;
  if (schema instanceof z.ZodBoolean) {
    return "write true or false, without quotes; YAML 1.2 reads yes, no, on and off as text";
  }
  const number = schema && optionsOf(schema)[0];
  const isUnhinted = schema !== null && expectationOf(schema)?.hint === undefined;
  if (number instanceof z.ZodNumber && /\d/.test(found) && isUnhinted) {
    return "write only digits, without quotes, unit or separators: 20000";
  }
  return schema instanceof z.ZodArray ? "write a list: [ … ]" : undefined;
}

function wordsOf(schema: Schema | null): { readonly expects: string; readonly hint?: string } {
  const expectation = schema && expectationOf(schema);
  if (expectation) return expectation;
  if (schema instanceof z.ZodArray) return { expects: "a list" };
  if (schema instanceof z.ZodLiteral) return { expects: schema.def.values.map(String).join(" or ") };
  if (schema instanceof z.ZodUnion && !(schema instanceof z.ZodDiscriminatedUnion)) {
    const expected = optionsOf(schema).map((option) => wordsOf(option).expects);
    return { expects: expected.join(", or ") };
  }
  return { expects: "a mapping of keys to values", hint: "indent its keys below it, without `- `" };
}

/** Possible values of the discriminator `type` if the path refers to one. */
function discriminators(root: Schema, path: Path, value: unknown): readonly string[] {
  const parent = schemaAt(root, path.slice(0, -1), value);
  if (!(parent instanceof z.ZodDiscriminatedUnion) || parent.def.discriminator !== path.at(-1)) return [];
  return optionsOf(parent).map((option) => String(discriminatorOf(option, parent.def.discriminator)));
}

function unknownKey(root: Schema, path: Path, tree: unknown, key: string): SettingProblem {
  const schema = schemaAt(root, path, tree);
  const mapping = schema && optionFor(schema, valueAt(tree, path));
  const known = keysOf(mapping);
  const message = path.length === 0 ? "is not a setting" : `is not a setting of ${textOf(path)}`;
  const meant = suggest(key, known);
  if (meant !== null) return { message, hint: `did you mean ${meant}?` };
  const own = mapping && expectationOf(mapping)?.hint;
  if (own) return { message, hint: own };
  const types = typesWith(schema, key);
  if (types.length > 0) return { message, hint: `it belongs to type ${types.join(", ")}` };
  const others = keyPaths(root).filter((other) => other.path.at(-1) === key);
  const elsewhere = [...new Set(others.map((other) => textOf(other.path)))].slice(0, 3);
  if (elsewhere.length > 0) return { message, hint: `did you mean ${elsewhere.join(", ")}?` };
  if (path.length === 0 && ENVIRONMENTS.test(key)) {
    return { message, hint: "write one file per environment, and choose it with --config" };
  }
  const nesting = path.length === 0 ? "; indent what belongs to one of them" : "";
  return { message, hint: `the settings here are ${known.join(", ")}${nesting}` };
}

/** Other alternatives of a union that have this key. */
function typesWith(schema: Schema | null, key: string): readonly string[] {
  if (!(schema instanceof z.ZodDiscriminatedUnion)) return [];
  return optionsOf(schema)
    .filter((option) => keysOf(option).includes(key))
    .map((option) => String(discriminatorOf(option, schema.def.discriminator)));
}
