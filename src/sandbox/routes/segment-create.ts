import { z } from "zod";
import { checkAgainst, MAX_TEXT_LENGTH } from "../http/check-request.ts";
import { refuse, type Refusal } from "../http/outcome.ts";
import { listOf } from "../http/result-list.ts";
import type { Route } from "./route.ts";

const text = z.string().max(MAX_TEXT_LENGTH, { error: "string_too_long" });
const request = z.strictObject({
  name: text.min(1, { error: "string_too_short" }),
  description: text.nullable().optional(),
});

/** 400 for data types, 422 for what is missing (section 4.6 tells them apart for this path). */
function check(body: unknown): Refusal | null {
  const refusal = checkAgainst(request, body);
  if (!refusal || !Array.isArray(refusal.details)) return refusal;
  const isTyped = refusal.details.some(({ type }) => type === "string_type" || type === "model_type");
  return isTyped ? refuse(400, "bad_request", "The request has fields of a wrong type.") : refusal;
}

/** `POST /v2/segments/create`. */
export const createSegmentRoute: Route = {
  method: "POST",
  path: "/v2/segments/create",
  stamp: "z",
  resultsLast: false,
  needsCapacity: false,
  recordsOf: () => [],
  check: ({ body }) => check(body),
  answer({ segments }, { organization, body }) {
    // It passed the check.
    const { name, description = null } = body as z.infer<typeof request>;
    const segment = segments.create({ organization, name, description });
    if (!segment) return refuse(409, "conflict", "The organization has a segment of that name.");
    return {
      kind: "results",
      results: listOf([]),
      matched: 0,
      billed: 0,
      wrap: (id, completed) => [`{${id},"segment_id":"${segment.segmentId}"`, `,${completed}}`],
    };
  },
};
