import { z } from "zod";
import type { Complaint } from "../problems.ts";

/** Describes a value in words, for messages and docs. */
export interface Expectation {
  /** Completes `must be …`. */
  readonly expects: string;
  readonly hint?: string;
  /** Regular expression of valid texts; editors check it, too. */
  readonly pattern?: string;
  /** The value is a secret: never expanded into the tree, never repeated. */
  readonly isSecret?: true;
  /** The value is SQL: the environment must not become part of it. */
  readonly isSql?: true;
  /** The value is a length of time. */
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

const expectations = z.registry<Expectation>();

/** Attaches an expectation to a schema. For optional or default values, it belongs to the inner schema. */
export function described<S extends z.ZodType>(schema: S, expectation: Expectation): S {
  expectations.add(schema, expectation);
  return schema;
}

/** Returns the expectation of a schema, if any. */
export function expectationOf(schema: z.core.$ZodType): Expectation | undefined {
  return expectations.get(schema);
}

/**
 * A text that is not blank and has the pattern of its expectation. `wrong` returns true or a complaint if invalid, false or
 * null if valid.
 */
export function text(expectation: Expectation, wrong?: (value: string) => Complaint | boolean | null) {
  const pattern = expectation.pattern === undefined ? null : new RegExp(expectation.pattern);
  const schema = z.string().check((context) => {
    const verdict = context.value.trim() === "" || (wrong?.(context.value) ?? false);
    if (verdict === false && (pattern?.test(context.value) ?? true)) return;
    const complaint = typeof verdict === "boolean" ? undefined : verdict;
    context.issues.push({ code: "custom", input: context.value, params: { complaint } });
  });
  return described(schema, expectation);
}

/** One of several words. */
export function choice<const Values extends readonly [string, ...string[]]>(values: Values, hint?: string) {
  const expects = values.length === 1 ? `\`${values[0]}\`` : `one of ${values.join(", ")}`;
  return described(z.enum(values), { expects, ...(hint === undefined ? {} : { hint }) });
}

/** A whole number within bounds, both inclusive. */
export function wholeNumber(min: number, max: number) {
  const expects =
    max === Number.MAX_SAFE_INTEGER
      ? `a whole number, ${min} or more`
      : `a whole number from ${min} to ${max}`;
  return described(z.int().min(min).max(max), { expects });
}

/** True or false. */
export function flag() {
  return described(z.boolean(), { expects: "true or false" });
}

/** A ratio from 0 to 1, both inclusive. */
export function ratio() {
  return described(z.number().min(0).max(1), {
    expects: "a number from 0 to 1",
    hint: "0.2 means 20 percent",
  });
}

/** A number above zero, to a million. */
export function positiveNumber() {
  return described(z.number().positive().max(1_000_000), { expects: "a number above 0, at most 1000000" });
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
          const complaint: Complaint = { message: "is a duplicate", hint: "remove it" };
          context.issues.push({ code: "custom", input: value, path: [position], params: { complaint } });
        }
        seen.add(content);
      }
    });
  return described(schema, { expects });
}

/** One entry, or a list of at least one; the output is a list. */
export function oneOrMore<S extends z.ZodType<string>>(item: S) {
  const one = expectationOf(item);
  const words = { ...one, expects: `${one?.expects ?? "an entry"}, or a list of at least one` };
  return described(z.union([item, described(listOf(item, words.expects, 1), words)]), words).transform(
    (value): readonly string[] => [value].flat(),
  );
}
