import { column, type Table, table } from "./table.ts";

/** Recent erasures, so that copies of the tables can delete the same rows. */
export const tombstone: Table = table("tombstone", {
  schema: "data",
  doc: "Recent erasures: rows to delete from copies of these tables. Kept for `erasure_notice`.",
  key: ["tombstone_id"],
  people: "kept",
  columns: [
    column("tombstone_id", "uuid", "none", "ID of the tombstone."),
    column("service_pid", "text", "direct", "Erased PID; null for an input row."),
    column("source", "text", "none", "Input of the erased row."),
    column("source_key", "text", "direct", "Key of the erased row."),
    column("erased_at", "timestamptz", "none", "When the erasure was requested.", true),
  ],
});

/** Erased people, skipped by later runs. */
export const erasureSubject: Table = table("erasure_subject", {
  schema: "ops",
  doc: "Erased people, as keyed hashes: later runs neither send nor store them.",
  key: ["erasure_id", "kind", "subject_hash"],
  columns: [
    column("erasure_id", "uuid", "none", "ID of the erasure; all identifiers of one person share it."),
    column(
      "kind",
      "text",
      "none",
      "`pid`, `email`, `source_key`, or `content`: of a row that no other row equals.",
    ),
    column("subject_hash", "bytes", "none", "HMAC-SHA256 of the identifier's kind and value."),
    column("key_id", "text", "none", "ID of the hash key.", true),
    column("requested_at", "timestamptz", "none", "When the erasure was requested.", true),
    column(
      "completed_at",
      "timestamptz",
      "none",
      "When the person was removed from every table and destination; null while pending.",
    ),
    column("rows_removed", "integer", "none", "Rows that the whole erasure removed from all tables.", true),
  ],
});

/** Key of erasure hashes. */
export const erasureKey: Table = table("erasure_key", {
  schema: "state",
  doc: "Single row: key of the erasure hashes, and number of erasures so far.",
  key: ["name"],
  people: "nobody",
  columns: [
    column("name", "text", "none", "Always `erasure`."),
    column(
      "epoch",
      "integer",
      "none",
      "Number of erasures; after an increase, reservations check their records.",
      true,
    ),
    column("key_id", "text", "none", "ID of the key; null before the first erasure."),
    column("made_key", "text", "none", "The key in hex if it was generated here; null if it is configured."),
  ],
});

/** Pending erasures. */
export const erasureRequest: Table = table("erasure_request", {
  schema: "state",
  doc: "Pending erasures: identifiers to remove, and the runs that must end first.",
  key: ["request_id"],
  people: "kept",
  columns: [
    column("request_id", "uuid", "none", "ID of the request."),
    column("erasure_id", "uuid", "none", "The erasure (`erasure_subject`).", true),
    column(
      "people",
      "json",
      "direct",
      "PIDs, addresses and input rows to remove, found at the request.",
      true,
    ),
    column("waits_for", "json", "none", "Job locks that were held when the request was made.", true),
    column(
      "is_final",
      "boolean",
      "none",
      "True if the rows were removed after all of these runs had ended.",
      true,
    ),
    column("requested_at", "timestamptz", "none", "When the erasure was requested.", true),
  ],
});
