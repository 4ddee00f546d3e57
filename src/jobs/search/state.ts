import type { JsonObject } from "../../schemas/flatten.ts";

/** State of a search or contact job, and the code of its error, as a checkpoint keeps them: words, never free text. */
export function stateOf(body: JsonObject, code: unknown) {
  return { status: wordOf(body["status"]) ?? "unknown", error_code: wordOf(code) };
}

function wordOf(value: unknown): string | null {
  return typeof value === "string" && /^\w{1,60}$/u.test(value) ? value : null;
}
