import type { z } from "zod";
import type { LookupEndpoint } from "../../schemas/endpoint.ts";
import { type Refusal, type RefusedField, refuse } from "./outcome.ts";

/** Longest text that the sandbox accepts in a record (the interface sets no limit). */
export const MAX_TEXT_LENGTH = 1000;
/** Most faults that one answer lists. */
const MAX_DETAILS = 100;

/** Names of types as the service's details spell them. */
const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: "string_type",
  array: "list_type",
  boolean: "bool_type",
  object: "model_type",
  number: "float_type",
};

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value: unknown = body;
  for (const step of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = Reflect.get(value, step);
  }
  return value;
}

function fieldsOf(place: Place, body: unknown, issue: z.core.$ZodIssue): readonly RefusedField[] {
  const loc = [place, ...issue.path.map(String)];
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ loc: [...loc, key], type: "extra_forbidden" }));
  }
  if (issue.code === "invalid_value") return [{ loc, type: "enum" }];
  // The sandbox's schemas have the service's type as their message.
  if (issue.code !== "invalid_type")
    return [{ loc, type: /^[a-z_]+$/.test(issue.message) ? issue.message : "value_error" }];
  const isMissing = valueAt(body, issue.path) === undefined;
  return [{ loc, type: isMissing ? "missing" : (TYPE_NAMES[issue.expected] ?? "value_error") }];
}

function* longTexts(value: unknown, loc: readonly string[]): Generator<RefusedField> {
  if (typeof value === "string") {
    if (value.length > MAX_TEXT_LENGTH) yield { loc, type: "string_too_long" };
  } else if (typeof value === "object" && value !== null) {
    for (const [key, inner] of Object.entries(value)) yield* longTexts(inner, [...loc, key]);
  }
}

/** Checked part of a request: the body, the query parameters, or those in the path. */
type Place = "body" | "query" | "path";

function unprocessable(details: readonly RefusedField[]): Refusal {
  return refuse(422, "validation_error", "The request has missing or malformed fields.", {
    details: details.slice(0, MAX_DETAILS),
  });
}

/** Checks a value against a schema; null if the service would accept it. */
export function checkAgainst(schema: z.ZodType, value: unknown, place: Place = "body"): Refusal | null {
  const checked = schema.safeParse(value);
  if (checked.success) return null;
  return unprocessable(checked.error.issues.flatMap((issue) => fieldsOf(place, value, issue)));
}

/** Query parameters as an object of texts; a repeated one becomes a list, which every schema refuses. */
export function parametersOf(query: URLSearchParams): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    [...new Set(query.keys())].map((name) => {
      const values = query.getAll(name);
      return [name, values.length === 1 ? values[0] : values];
    }),
  );
}

/** Checks a parsed body against a lookup's declared request; null if the service would accept it. */
export function checkLookup(endpoint: LookupEndpoint, body: unknown): Refusal | null {
  const records = valueAt(body, ["records"]);
  if (Array.isArray(records) && records.length > endpoint.maxRecords) {
    return refuse(
      413,
      "payload_too_large",
      `At most ${endpoint.maxRecords} records per request; this one has ${records.length}.`,
    );
  }
  const refusal = checkAgainst(endpoint.request, body);
  if (refusal) return refusal;
  const tooLong = [...longTexts(records, ["body", "records"])];
  return tooLong.length > 0 ? unprocessable(tooLong) : null;
}
