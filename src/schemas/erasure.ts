import { column, type Table, table } from "./table.ts";

/** Who was erased lately, so that copies of our tables can be cleaned as well. */
export const tombstone: Table = table("tombstone", {
  schema: "data",
  doc: "Who was erased lately: what copies of these tables have to remove too. Kept for `erasure_notice`.",
  key: ["tombstone_id"],
  people: "kept",
  columns: [
    column("tombstone_id", "uuid", "none", "Id of the tombstone."),
    column("service_pid", "text", "direct", "PID that was erased; null where the row names something else."),
    column("source", "text", "none", "Input of the erased row."),
    column("source_key", "text", "direct", "Key of the erased row."),
    column("erased_at", "timestamptz", "none", "From when on the person is kept out.", true),
    column(
      "email_address",
      "text",
      "direct",
      "E-mail address whose rows are being removed; such a tombstone goes when that is done.",
    ),
    column("erasure_id", "uuid", "none", "The erasure (`erasure_subject`).", true),
    column(
      "removed_at",
      "timestamptz",
      "none",
      "When the last of the person's rows was removed; null while that is under way.",
    ),
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
  ],
});

/** Whom later runs keep out. */
export const erasureSubject: Table = table("erasure_subject", {
  schema: "ops",
  doc: "Whom later runs neither send nor store: keyed hashes, which tell nothing without the key.",
  key: ["erasure_id", "kind", "subject_hash"],
  columns: [
    column("erasure_id", "uuid", "none", "The erasure; all that one person is known by has the same."),
    column("kind", "text", "none", "`pid`, `email` or `source_key`."),
    column("subject_hash", "bytes", "none", "HMAC-SHA256 of kind and value."),
    column(
      "requested_at",
      "timestamptz",
      "none",
      "When it was erased, or found to belong to the erased.",
      true,
    ),
    column("rows_removed", "integer", "none", "Rows that the whole erasure removed from all tables.", true),
  ],
});

/** The number of erasures, by which a load sees that one came between. */
export const erasureEpoch: Table = table("erasure_epoch", {
  schema: "state",
  doc: "One row: how many erasures there were, and the key of their hashes where the configuration has none.",
  key: ["name"],
  people: "nobody",
  columns: [
    column("name", "text", "none", "Always `erasure`."),
    column(
      "epoch",
      "integer",
      "none",
      "Raised with every erasure; a load that saw an older one begins anew.",
      true,
    ),
    column("key_id", "text", "none", "Recognizes the key of the hashes; null before the first erasure."),
    column(
      "made_key",
      "text",
      "none",
      "The key itself, hex, where it was made here; null where the configuration has it.",
    ),
  ],
});
