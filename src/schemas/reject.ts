import { column, type Table, table } from "./table.ts";

/** Records that could not be processed, without their values; a retry reads the input again. */
export const reject: Table = table("reject", {
  schema: "data",
  doc: "Records that could not be processed, with the cause; never their values.",
  key: ["reject_id"],
  // The key of a row may be an address or, for a segment_push, a PID.
  people: { pids: ["source_key"], emails: ["source_key"], isOfInputRow: true },
  columns: [
    column("reject_id", "uuid", "none", "ID of the reject."),
    column("run_id", "text", "none", "Run that rejected the record.", true),
    column("job", "text", "none", "Name of the job.", true),
    column("source", "text", "none", "Name of the input.", true),
    column("source_key", "text", "direct", "The input row's key; for validate_emails the address."),
    column(
      "stage",
      "text",
      "none",
      "`input` (before sending), `send` (rejected by the service), `answer` or `load` (rejected by the warehouse).",
      true,
    ),
    column("code", "text", "none", "Stable code of the cause.", true),
    column("message", "text", "none", "The cause as a sentence.", true),
    column("details", "json", "none", "Paths and expected types, never values."),
    column("api_request_id", "text", "none", "The service's ID of the call."),
    column("created_at", "timestamptz", "none", "When it was rejected.", true),
    column("resolved_at", "timestamptz", "none", "When the record was processed or the reject dropped."),
  ],
});
