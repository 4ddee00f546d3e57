import { z } from "zod";
import { booleanOf } from "./convert.ts";
import { endpointOf, inputRow, type LookupEndpoint } from "./answer.ts";
import { boolean, position, text, timestamp, timestamptz } from "./field.ts";
import type { RecordDeclaration } from "./flatten.ts";
import { table } from "./table.ts";

/** Answer columns of one result (section 2.13), without the address. */
export const validateFields = {
  is_match: boolean("none", "True if the service has the address."),
  email_validation_status: text("none", "`valid`, `invalid`, `unknown`, or null when not matched."),
  email_last_seen: timestamp("none", "When the address was last seen; wall time without a time zone."),
};

const result: RecordDeclaration = {
  fields: { email_address: text("direct", "Address as sent."), ...validateFields },
  lists: {},
};

/** `POST /v2/validate_emails` (section 4.7). */
export const validateEmailsEndpoint: LookupEndpoint = {
  ...endpointOf("POST", "/v2/validate_emails"),
  maxRecords: 2000,
  pairing: "position_and_address",
  request: z.strictObject({ records: z.array(z.string()).max(2000) }),
  isMatch: ({ is_match: said, email_validation_status: status }) =>
    booleanOf(said) ?? typeof status === "string",
  result,
};

export const emailValidation = table("email_validation", {
  schema: "data",
  doc: "Last response of /v2/validate_emails for each address.",
  key: ["email_address"],
  people: { emails: ["email_address"] },
  columns: {
    email_address: text("direct", "Address as sent."),
    ...validateFields,
    previous_status: text("none", "Status before the current one."),
    status_changed_at: timestamptz("none", "When the status last changed."),
    api_request_id: text("none", "The service's ID of the call with the last response."),
    request_completed_at: timestamptz("none", "When the service completed that call."),
  },
  hasExtra: true,
});

export const inputEmail = table("input_email", {
  schema: "data",
  doc: "Addresses of each input row, in mapping order.",
  key: ["source", "source_key", "position"],
  people: { emails: ["source_key", "email_address"], isOfInputRow: true },
  columns: {
    ...inputRow,
    position: position("none", "0-based index among the row's addresses."),
    email_address: text("direct", "Address as in the input."),
  },
});
