import { z } from "zod";
import type { LookupEndpoint } from "./endpoint.ts";
import { boolean, text, timestamp } from "./field.ts";
import type { RecordDeclaration } from "./record.ts";
import { column, columnsOf, type Table, table } from "./table.ts";

/** The answer columns of one result (section 2.13), beside the address. */
export const validateFields = {
  is_match: boolean("none", "Whether the address is known to the service."),
  email_validation_status: text("none", "`valid`, `invalid`, `unknown`, or null when not matched."),
  email_last_seen: timestamp("none", "When the address was last seen, without zone."),
};

const result: RecordDeclaration = {
  fields: { email_address: text("direct", "The address as sent."), ...validateFields },
  lists: {},
};

/** `POST /v2/validate_emails` (section 4.7). */
export const validateEmailsEndpoint: LookupEndpoint = {
  name: "POST /v2/validate_emails",
  method: "POST",
  path: "/v2/validate_emails",
  section: "4.7",
  maxRecords: 2000,
  billed: true,
  pairing: "position_and_address",
  request: z.strictObject({ records: z.array(z.string()).max(2000) }),
  result,
};

/** The last answer to each address. */
export const emailValidation: Table = table("email_validation", {
  schema: "data",
  doc: "The last answer of /v2/validate_emails to each address (section 2.13).",
  key: ["email_address"],
  people: { emails: ["email_address"] },
  columns: [
    column("email_address", "text", "direct", "The address as sent."),
    ...columnsOf(validateFields),
    column("previous_status", "text", "none", "The status before the present one."),
    column("status_changed_at", "timestamptz", "none", "When the status last changed."),
    column("api_request_id", "text", "none", "The service's id of the call that answered last."),
    column("request_completed_at", "timestamptz", "none", "When the service completed that call."),
  ],
  hasExtra: true,
});

/** Which addresses each input row has. */
export const inputEmail: Table = table("input_email", {
  schema: "data",
  doc: "The addresses of each input row, in the order of the mapping.",
  key: ["source", "source_key", "position"],
  people: { emails: ["source_key", "email_address"], isOfInputRow: true },
  columns: [
    column("source", "text", "none", "Input of the configuration."),
    column("source_key", "text", "direct", "The input row's key as canonical text."),
    column("position", "position", "none", "0-based index among the row's addresses."),
    column("email_address", "text", "direct", "The address as it stands in the input."),
  ],
});
