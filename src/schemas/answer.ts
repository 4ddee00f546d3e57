import type { z } from "zod";
import type { JsonObject, RecordDeclaration } from "./flatten.ts";
import { booleanOf, pidOf } from "./convert.ts";
import { boolean, numeric, text, timestamptz } from "./field.ts";
import { type NamesPeople, table } from "./table.ts";

/** Declares an endpoint; its name is the one in the ledger and in `schema_drift`. */
export const endpointOf = <const Method extends "GET" | "POST">(method: Method, path: string) => ({
  name: `${method} ${path}`,
  method,
  path,
});

/** An endpoint that takes a batch of records and returns one result for each (section 4.7). */
export interface LookupEndpoint {
  /** Method and path, as in the ledger and `schema_drift`. */
  readonly name: string;
  readonly method: "POST";
  readonly path: string;
  /** Maximum records per call (section 8). */
  readonly maxRecords: number;
  /** Field that pairs results with records. */
  readonly pairing: "record_id" | "position_and_address";
  /** Strict schema of a whole request body; the sandbox rejects anything else. */
  readonly request: z.ZodType;
  /** True for the result of a match, whether or not it has a PID. */
  readonly isMatch: (result: JsonObject) => boolean;
  readonly result: RecordDeclaration;
}

/** True for a match: `is_match` decides if present, otherwise the presence of a PID. */
export function isPersonMatch({ is_match: said, service_pid: pid }: JsonObject): boolean {
  return booleanOf(said) ?? pidOf(pid) !== null;
}

/** Columns that name a row of an input. */
export const inputRow = {
  source: text("none", "Name of the input."),
  source_key: text(
    "direct",
    'The input row\'s key as text; of several columns a JSON array of texts, such as ["2", "K-000097"].',
  ),
};

/** Key of an input row in a job; answers are stored under it. */
export const inputRowKey = {
  job: text("none", "Name of the job."),
  ...inputRow,
};

/** Columns that every answer table has besides its own fields. */
export const answerColumns = {
  api_request_id: text("none", "The service's ID of the call with the last response."),
  request_completed_at: timestamptz("none", "When the service completed that call."),
  is_present: boolean(
    "none",
    "True if the current content of the row was matched and the row is still in the input.",
    "required",
  ),
  first_matched_at: timestamptz("none", "When this row was first matched."),
  last_matched_at: timestamptz("none", "When this row was last matched."),
  last_matched_service_pid: text("direct", "PID of the last match; a later non-match keeps it."),
};

/** Columns of answer tables that name people. */
export const answeredPeople: NamesPeople = {
  pids: ["service_pid", "last_matched_service_pid"],
  emails: ["source_key"],
  isOfInputRow: true,
};

export const matchHistory = table("match_history", {
  schema: "data",
  doc: "Match history of each input row; the intervals of a row never overlap.",
  key: ["job", "source", "source_key", "valid_from"],
  people: { pids: ["service_pid"], emails: ["source_key"], isOfInputRow: true },
  columns: {
    ...inputRowKey,
    valid_from: timestamptz("none", "When the service first returned this state (inclusive)."),
    valid_to: timestamptz(
      "none",
      "When it returned a different state (exclusive); null for the last one, also of a row that changed, was rejected or left the input since (`is_present`).",
    ),
    is_match: boolean("none", "True if the row matched."),
    service_pid: text("direct", "PID of the match."),
    match_score: numeric("none", "Score of the match."),
  },
});
