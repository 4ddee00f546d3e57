import { z } from "zod";
import { RESULTS_PAGE_SIZE } from "../../../../src/schemas/audience-search.ts";
import type { StampStyle } from "../clock.ts";
import type { World } from "../world.ts";
import { type Outcome, type Refusal, type RefusedField, refuse } from "./answer.ts";

/** A request whose key and path were accepted. */
export interface RouteCall {
  /** Organization of the key; resources of another one are not found. */
  readonly organization: string;
  /** ID in the path; empty for paths without one. */
  readonly id: string;
  readonly query: URLSearchParams;
  /** Parsed body; null for GET. */
  readonly body: unknown;
}

/** A path of the service. */
export interface Route {
  readonly method: "GET" | "POST";
  /** May have one ID: `/person-search/v0/search/{search_id}`. */
  readonly path: string;
  /** Form of `request_completed_at`; `z` by default. */
  readonly stamp?: StampStyle;
  /** True if `results` is the envelope's last member. */
  readonly resultsLast?: boolean;
  /** Refused with 402 if the capacity can't cover the records (section 4.7 names it for enrich only). */
  readonly needsCapacity?: boolean;
  /** Refused with 401 for keys of an organization without a user (section 5). */
  readonly needsUserKey?: boolean;
  /** True for a POST without a body. */
  readonly hasNoBody?: boolean;
  /** Member of the body that lists the records, for the ledger and for faults. */
  readonly records?: string;
  /** Refuses malformed requests; null lets one pass. */
  check(call: RouteCall): Refusal | null;
  /** Carries out a request that passed its check. */
  answer(world: World, call: RouteCall): Outcome | Promise<Outcome>;
}

/** A request to a control. */
interface ControlCall {
  /** Parsed body; `{}` without one. */
  readonly body: unknown;
  /** Rest of the path after the control's name. */
  readonly rest: string;
  readonly query: URLSearchParams;
}

/** Returns plain data to answer with, or null for 404. */
export type Control = (world: World, call: ControlCall) => unknown;

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
export function listIn(body: unknown, member: string): readonly unknown[] {
  const list = valueAt(body, [member]);
  return Array.isArray(list) ? list : [];
}

/** Checked part of a request: the body, the query parameters, or those in the path. */
type Place = "body" | "query" | "path";

function refusedFields(place: Place, body: unknown, issue: z.core.$ZodIssue): readonly RefusedField[] {
  const loc = [place, ...issue.path.map(String)];
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ loc: [...loc, key], type: "extra_forbidden" }));
  }
  if (issue.code === "invalid_value") return [{ loc, type: "enum" }];
  if (issue.code === "invalid_type") {
    const isMissing = valueAt(body, issue.path) === undefined;
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

/** Checks a value against a schema; null if the service would accept it. */
export function checkAgainst(schema: z.ZodType, value: unknown, place: Place = "body"): Refusal | null {
  const checked = schema.safeParse(value);
  if (checked.success) return null;
  return unprocessable(checked.error.issues.flatMap((issue) => refusedFields(place, value, issue)));
}

/** Checks query parameters; a repeated one becomes a list, which every schema refuses. */
export function checkQuery(schema: z.ZodType, query: URLSearchParams): Refusal | null {
  const parameters = [...new Set(query.keys())].map((name) => {
    const values = query.getAll(name);
    return [name, values.length === 1 ? values[0] : values];
  });
  return checkAgainst(schema, Object.fromEntries(parameters), "query");
}

/** A UUID as text. */
export const uuid = z
  .string()
  .regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, { error: "uuid_parsing" });

/** An integer in a query, from `min` to `max`. */
export function integerText(min: number, max = Number.POSITIVE_INFINITY) {
  return z
    .string()
    .regex(/^[+-]?\d{1,15}$/, { error: "int_parsing" })
    .refine((text) => !(Number(text) < min), { error: "greater_than_equal" })
    .refine((text) => !(Number(text) > max), { error: "less_than_equal" });
}

const page = z.strictObject({
  limit: integerText(1, RESULTS_PAGE_SIZE).optional(),
  offset: integerText(0).optional(),
});

/** Checks that the ID in a path is a UUID. */
export function checkId(name: string, { id }: RouteCall): Refusal | null {
  return checkAgainst(z.strictObject({ [name]: uuid }), { [name]: id }, "path");
}

/** Checks the ID in a path and the parameters of a page. */
export function checkPage(name: string, call: RouteCall): Refusal | null {
  return checkId(name, call) ?? checkQuery(page, call.query);
}

/** Requested page. */
export function pageOf({ query }: RouteCall): { readonly limit: number; readonly offset: number } {
  return {
    limit: Number(query.get("limit") ?? RESULTS_PAGE_SIZE),
    offset: Number(query.get("offset") ?? 0),
  };
}
