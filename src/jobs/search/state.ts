import type { JsonObject } from "../../schemas/flatten.ts";

/** State of a search or contact job, and the code of its error, as a checkpoint keeps them. */
export function stateOf(body: JsonObject, code: unknown) {
  return {
    status: String(body["status"]),
    error_code: typeof code === "string" && /^\w{1,60}$/u.test(code) ? code : null,
  };
}
