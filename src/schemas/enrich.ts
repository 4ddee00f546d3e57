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
import { personDerived, personFields, personLists } from "./person.ts";
import type { RecordDeclaration } from "./flatten.ts";
import { requestRecord } from "./resolve.ts";
import { table } from "./table.ts";

/** String fields of an input record (section 2.14), without `record_id`. */
export const enrichScalarFields = [
  "service_pid",
  "linkedin_url",
  "first_name",
  "middle_name",
  "last_name",
  "full_name",
  "name_suffix",
  "full_address",
  "address_line_1",
  "address_line_2",
  "city",
  "state",
  "zipcode",
] as const;
/** String-list fields of an input record (section 2.14). */
export const enrichListFields = ["emails", "phones"] as const;

/** Allowed values of `match_condition_fields` (section 4.7). */
export const matchConditionFields = [
  "linkedin_url",
  "gender",
  "estimated_income_range",
  "estimated_wealth_range",
  "emails",
  "personal_email",
  "professional_email",
  "phone",
  "mobile_phone",
  "home_ownership_status",
] as const;

/** Answer columns of one result (section 2.14), without `record_id` and the person. */
export const enrichFields = {
  is_match: boolean("none", "True if the record matched a person."),
  service_pid: text("direct", "PID of the match; null without one."),
  match_score: numeric("none", "Score of the match, as received; null without one."),
  validation_errors: json("none", "Problems in the record reported by the service."),
};

const result: RecordDeclaration = {
  fields: { record_id: text("none", "ID of the record as sent."), ...enrichFields, ...personFields },
  lists: personLists,
  derived: personDerived,
};

/** `POST /v2/enrich` (section 4.7). */
export const enrichEndpoint: LookupEndpoint = {
  ...endpointOf("POST", "/v2/enrich"),
  maxRecords: 500,
  pairing: "record_id",
  request: z.strictObject({
    records: z.array(requestRecord(enrichScalarFields, enrichListFields)).max(500),
    match_condition_fields: z.array(z.enum(matchConditionFields)).optional(),
    return_fields: z.array(z.string()).optional(),
    include_premium_fields: z.boolean().optional(),
  }),
  isMatch: isPersonMatch,
  result,
};

export const enrichment = table("enrichment", {
  schema: "data",
  doc: "Last response of /v2/enrich for each input row; the person is in `person`.",
  key: ["job", "source", "source_key"],
  columns: { ...inputRowKey, ...enrichFields, ...answerColumns },
  people: answeredPeople,
  hasExtra: true,
});
