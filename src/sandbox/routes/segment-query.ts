import { z } from "zod";
import { type Refusal, refuse } from "../http/outcome.ts";

/** A segment_id as the service takes it, from a body or from a query. */
export const segmentIdField = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, {
  error: "uuid_parsing",
});

/** 404 for a segment that doesn't exist, or belongs to another organization. */
export const noSuchSegment = (): Refusal => refuse(404, "not_found", "There is no such segment.");
