import { column, type Table, table } from "./table.ts";

/** Lists who was erased lately, so that copies of the tables can delete them too. */
export const tombstone: Table = table("tombstone", {
  schema: "data",
  doc: "Who was erased lately: rows that copies of these tables have to delete too. Kept for `erasure_notice`.",
  key: ["tombstone_id"],
  people: "kept",
  columns: [
    column("tombstone_id", "uuid", "none", "Id of the tombstone."),
    column("service_pid", "text", "direct", "Erased PID; null if the row names an input row."),
    column("source", "text", "none", "Input of the erased row."),
    column("source_key", "text", "direct", "Key of the erased row."),
    column("erased_at", "timestamptz", "none", "When the erasure was requested.", true),
  ],
});

/** Input rows that were answered and have left their input. */
export const missingInputRow: Table = table("missing_input_row", {
  schema: "state",
  doc: "Input rows with answers that have left their input (`on_missing: flag` or `erase`); gone again once they are back.",
  key: ["source", "source_key"],
  people: { emails: ["source_key"], isOfInputRow: true },
  columns: [
    column("source", "text", "none", "Input of the configuration."),
    column("source_key", "text", "direct", "The input row's key as canonical text."),
    column("missing_since", "timestamptz", "none", "When a run first missed the row.", true),
    column("missed_runs", "position", "none", "Number of different runs that missed the row.", true),
    column("last_run_id", "text", "none", "The last run that missed it.", true),
  ],
});

/** Lists people whom later runs keep out. */
export const erasureSubject: Table = table("erasure_subject", {
  schema: "ops",
  doc: "People whom later runs neither send nor store, as keyed hashes.",
  key: ["erasure_id", "kind", "subject_hash"],
  columns: [
    column("erasure_id", "uuid", "none", "The erasure; everything one person is known by shares it."),
    column("kind", "text", "none", "`pid`, `email` or `source_key`."),
    column("subject_hash", "bytes", "none", "HMAC-SHA256 of kind and value."),
    column("key_id", "text", "none", "Id of the key the hash was made with.", true),
    column(
      "requested_at",
      "timestamptz",
      "none",
      "When the erasure was requested, or the subject found.",
      true,
    ),
    column(
      "completed_at",
      "timestamptz",
      "none",
      "When every table and destination was free of the person; null while pending.",
    ),
    column("rows_removed", "integer", "none", "Rows the whole erasure removed from all tables.", true),
  ],
});

/** Holds the key of erasure hashes. */
export const erasureKey: Table = table("erasure_key", {
  schema: "state",
  doc: "One row: the key of erasure hashes, and the number of erasures so far.",
  key: ["name"],
  people: "nobody",
  columns: [
    column("name", "text", "none", "Always `erasure`."),
    column(
      "epoch",
      "integer",
      "none",
      "Number of erasures; a reservation that sees a new one checks its records.",
      true,
    ),
    column("key_id", "text", "none", "Id of the key; null before the first erasure."),
    column("made_key", "text", "none", "The key itself, hex, if it was made here; null if it is configured."),
  ],
});

/** Lists erasures that aren't done. */
export const erasureRequest: Table = table("erasure_request", {
  schema: "state",
  doc: "Erasures that aren't done: who is to be removed, and which runs have to end first.",
  key: ["request_id"],
  people: "kept",
  columns: [
    column("request_id", "uuid", "none", "Id of the request."),
    column(
      "erasure_id",
      "uuid",
      "none",
      "The erasure (`erasure_subject`); loads may add requests to one.",
      true,
    ),
    column("people", "json", "direct", "PIDs, addresses and input rows to remove.", true),
    column("waits_for", "json", "none", "Job locks that were held when the request was made.", true),
    column(
      "is_final",
      "boolean",
      "none",
      "True once the rows were removed after all those runs had ended.",
      true,
    ),
    column("requested_at", "timestamptz", "none", "When it was made.", true),
  ],
});
