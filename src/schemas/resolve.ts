import { z } from "zod";
import {
  answerColumns,
  answeredPeople,
  endpointOf,
  inputRowKey,
  isPersonMatch,
  type LookupEndpoint,
} from "./answer.ts";
import { boolean, json, numeric, text } from "./field.ts";
import type { RecordDeclaration } from "./flatten.ts";
import { table } from "./table.ts";

/** Schema of an input record with fields of one text and fields of several. */
export function requestRecord(scalars: readonly string[], lists: readonly string[]) {
  return z.strictObject({
    record_id: z.string().optional(),
    ...Object.fromEntries(scalars.map((field) => [field, z.string().nullable().optional()])),
    ...Object.fromEntries(lists.map((field) => [field, z.array(z.string()).nullable().optional()])),
  });
}

/** String fields of an input record (section 2.12), without `record_id`. */
export const resolveScalarFields = [
  "first_name",
  "middle_name",
  "last_name",
  "full_name",
  "name_suffix",
] as const;
/** String-list fields of an input record (section 2.12). */
export const resolveListFields = ["emails", "phones"] as const;

/** Answer columns of one result (section 2.12), without `record_id`. */
export const resolveFields = {
  is_match: boolean("none", "True if the record matched a person."),
  service_pid: text("direct", "PID of the match; null without one."),
  match_score: numeric(
    "none",
    "Score in points, not a percentage; at least 50 for a match, null without one.",
  ),
  is_resolvable_record: boolean("none", "True if the service could use the record."),
  validation_errors: json("none", "Problems in the record reported by the service."),
};

const result: RecordDeclaration = {
  fields: { record_id: text("none", "ID of the record as sent."), ...resolveFields },
  lists: {},
};

/** `POST /v1/resolve` (section 4.7). */
export const resolveEndpoint: LookupEndpoint = {
  ...endpointOf("POST", "/v1/resolve"),
  maxRecords: 1000,
  pairing: "record_id",
  request: z.strictObject({
    records: z.array(requestRecord(resolveScalarFields, resolveListFields)).max(1000),
  }),
  isMatch: isPersonMatch,
  result,
};

export const resolution = table("resolution", {
  schema: "data",
  doc: "Last response of /v1/resolve for each input row.",
  key: ["job", "source", "source_key"],
  columns: { ...inputRowKey, ...resolveFields, ...answerColumns },
  people: answeredPeople,
  hasExtra: true,
});
