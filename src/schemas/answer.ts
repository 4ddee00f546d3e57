import { type Column, column, type NamesPeople, type Table, table } from "./table.ts";

/** The key of an input row, under which answers are kept. */
export const inputRowKey: readonly Column[] = [
  column("job", "text", "none", "Job of the configuration."),
  column("source", "text", "none", "Input of the configuration."),
  column("source_key", "text", "direct", "The input row's key as canonical text."),
];

/** What every answer table carries beyond its own fields. */
export const answerColumns: readonly Column[] = [
  column("api_request_id", "text", "none", "The service's id of the call that answered last."),
  column("request_completed_at", "timestamptz", "none", "When the service completed that call."),
  column(
    "is_present",
    "boolean",
    "none",
    "True if the row's present content was matched and the row is still in the input.",
    true,
  ),
  column("first_matched_at", "timestamptz", "none", "When this row was first matched."),
  column("last_matched_at", "timestamptz", "none", "When this row was last matched."),
  column(
    "last_matched_service_pid",
    "text",
    "direct",
    "The PID of the last match; a later non-match keeps it.",
  ),
];

/** How answer tables name people. */
export const answeredPeople: NamesPeople = {
  pids: ["service_pid", "last_matched_service_pid"],
  emails: ["source_key"],
  isOfInputRow: true,
};

/** How the match of each input row changed over time. */
export const matchHistory: Table = table("match_history", {
  schema: "data",
  doc: "Every state of each input row's match, as answered; intervals never overlap.",
  key: ["job", "source", "source_key", "valid_from"],
  people: { pids: ["service_pid"], emails: ["source_key"], isOfInputRow: true },
  columns: [
    ...inputRowKey,
    column("valid_from", "timestamptz", "none", "When the service first answered so (inclusive)."),
    column(
      "valid_to",
      "timestamptz",
      "none",
      "When it answered otherwise (exclusive); null for the present.",
    ),
    column("is_match", "boolean", "none", "Whether the row matched."),
    column("service_pid", "text", "direct", "PID of the match."),
    column("match_score", "numeric", "none", "Score of the match."),
  ],
});
