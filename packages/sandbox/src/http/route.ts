import { z } from "zod";
import type { World } from "../world.ts";
import { type Outcome, type Refusal, type RefusedField, refuse } from "./answer.ts";

/** A request that passed the checks of its route. */
export interface RouteCall<Body = unknown, Query = unknown> {
  /** Organization of the key; resources of another one are not found. */
  readonly organization: string;
  /** ID in the path; empty for paths without one. */
  readonly id: string;
  readonly query: Query;
  readonly body: Body;
}

export interface Route<Body = unknown, Query = unknown> {
  readonly method: "GET" | "POST";
  /** May have one ID: `/person-search/v0/search/{search_id}`. */
  readonly path: string;
  /** Query parameters; any are ignored without a schema. */
  readonly query?: z.ZodType<Query>;
  /** JSON body; a request without a schema has none. */
  readonly body?: z.ZodType<Body>;
  /** Member of the body that lists the records, for the ledger and for faults. */
  readonly records?: string;
  /** More records are refused with 413. */
  readonly maxRecords?: number;
  /** Types of problems that are refused with 400 instead of 422. */
  readonly badRequestFor?: readonly string[];
  /** Refused with 401 for keys of an organization without a user (section 5). */
  readonly needsUserKey?: boolean;
  answer(world: World, call: RouteCall<Body, Query>): Outcome | Promise<Outcome>;
}

/** Declares a route; its answer gets what its schemas read. */
export function route<Body, Query>(declared: Route<Body, Query>): Route {
  return declared;
}

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

/** List under a member of a parsed body; empty if there is none. */
export function listIn(body: unknown, member: string | undefined): readonly unknown[] {
  const list = member === undefined ? null : valueAt(body, [member]);
  return Array.isArray(list) ? list : [];
}

/** Checked part of a request: the body, the query parameters, or those in the path. */
type Place = "body" | "query" | "path";

function refusedFields(place: Place, value: unknown, issue: z.core.$ZodIssue): readonly RefusedField[] {
  const loc = [place, ...issue.path.map(String)];
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ loc: [...loc, key], type: "extra_forbidden" }));
  }
  if (issue.code === "invalid_value") return [{ loc, type: "enum" }];
  if (issue.code === "invalid_type") {
    const isMissing = valueAt(value, issue.path) === undefined;
    return [{ loc, type: isMissing ? "missing" : (TYPE_NAMES[issue.expected] ?? "value_error") }];
  }
  // The sandbox's schemas have the service's type as their message.
  return [{ loc, type: /^[a-z_]+$/.test(issue.message) ? issue.message : "value_error" }];
}

/** The 422 of malformed fields. */
export function unprocessable(
  details: readonly RefusedField[],
  message = "The request has missing or malformed fields.",
): Refusal {
  return refuse(422, "validation_error", message, { details: details.slice(0, MAX_DETAILS) });
}

function readPart<Value>(
  place: Place,
  schema: z.ZodType<Value> | undefined,
  value: unknown,
  { badRequestFor = [] }: Route,
): { readonly value: Value | undefined } | Refusal {
  const read = schema?.safeParse(value);
  if (read?.success !== false) return { value: read?.data };
  const details = read.error.issues.flatMap((issue) => refusedFields(place, value, issue));
  return details.some(({ type }) => badRequestFor.includes(type))
    ? refuse(400, "bad_request", "The request has missing fields, or fields of a wrong type.")
    : unprocessable(details);
}

/** Reads the parts of a request in their order: path, query, body. */
export function readCall(
  declared: Route,
  sent: {
    readonly organization: string;
    readonly id: string;
    readonly query: URLSearchParams;
    readonly body: unknown;
  },
): RouteCall | Refusal {
  const { organization, id } = sent;
  const name = /\{(\w+)\}/.exec(declared.path)?.[1];
  const path = name === undefined ? undefined : z.object({ [name]: uuid });
  const badId = readPart("path", path, { [name ?? ""]: id }, declared);
  if ("kind" in badId) return badId;
  // A repeated parameter becomes a list, which every schema refuses.
  const parameters = [...new Set(sent.query.keys())].map((key) => {
    const values = sent.query.getAll(key);
    return [key, values.length === 1 ? values[0] : values];
  });
  const query = readPart("query", declared.query, Object.fromEntries(parameters), declared);
  if ("kind" in query) return query;
  const records = listIn(sent.body, declared.records).length;
  if (declared.maxRecords !== undefined && records > declared.maxRecords) {
    const message = `At most ${declared.maxRecords} records per request; this one has ${records}.`;
    return refuse(413, "payload_too_large", message);
  }
  const body = readPart("body", declared.body, sent.body, declared);
  return "kind" in body ? body : { organization, id, query: query.value, body: body.value };
}

export const uuid = z
  .string()
  .regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, { error: "uuid_parsing" });

/** An integer in a query, from `min` to `max`. */
export function integerText(min: number, max = Number.POSITIVE_INFINITY) {
  return z
    .string()
    .regex(/^[+-]?\d{1,15}$/, { error: "int_parsing" })
    .refine((text) => !(Number(text) < min), { error: "greater_than_equal" })
    .refine((text) => !(Number(text) > max), { error: "less_than_equal" })
    .transform(Number);
}
