import { z } from "zod";
import { RESULTS_PAGE_SIZE } from "../../schemas/audience-search.ts";
import { checkAgainst, parametersOf } from "../http/check-request.ts";
import type { Refusal } from "../http/outcome.ts";
import type { RouteCall } from "./route.ts";

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const integer = z.string().regex(/^[+-]?\d{1,15}$/, { error: "int_parsing" });
const page = z.strictObject({
  limit: integer
    .refine((limit) => !(Number(limit) < 1), { error: "greater_than_equal" })
    .refine((limit) => !(Number(limit) > RESULTS_PAGE_SIZE), { error: "less_than_equal" })
    .optional(),
  offset: integer.refine((offset) => !(Number(offset) < 0), { error: "greater_than_equal" }).optional(),
});

/** Checks that the ID in a path is a UUID. */
export function checkId(name: string, { id }: RouteCall): Refusal | null {
  return checkAgainst(
    z.strictObject({ [name]: z.string().regex(uuid, { error: "uuid_parsing" }) }),
    { [name]: id },
    "path",
  );
}

/** Checks the ID in a path and the parameters of a page. */
export function checkPage(name: string, call: RouteCall): Refusal | null {
  return checkId(name, call) ?? checkAgainst(page, parametersOf(call.query), "query");
}

/** Requested page. */
export function pageOf({ query }: RouteCall): { readonly limit: number; readonly offset: number } {
  return {
    limit: Number(query.get("limit") ?? RESULTS_PAGE_SIZE),
    offset: Number(query.get("offset") ?? 0),
  };
}
