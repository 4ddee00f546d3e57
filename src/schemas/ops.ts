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

/** Counters of `run --json`, in its order; in input rows unless stated otherwise. */
export const runCounters = {
  records_read: "Input rows read (validate_emails: every occurrence of an address).",
  records_unchanged: "Rows that were not due.",
  records_duplicate: "Due rows with the same content as a record already sent or answered.",
  records_suppressed: "Rows skipped because the person was erased.",
  records_sent: "Distinct records sent at least once.",
  records_matched: "Distinct sent records that matched.",
  records_rejected: "Records rejected in this run, before or after sending.",
  records_rejected_before_sending: "Rows rejected without a call.",
  records_waiting: "Rows waiting for another job (`pid_from`).",
  records_remaining: "Due rows that were not sent.",
  rows_written: "Warehouse rows inserted, updated or deleted.",
  requests: "HTTP requests, including retries.",
  retries: "HTTP requests that retried an earlier one.",
  possibly_billed_twice: "Records sent again after an attempt that may have been billed.",
  records_received: "Records that a free job received.",
} as const;

/** One of the counters of `run --json`. */
export type RunCounter = keyof typeof runCounters;

const ops = (name: string, doc: string, key: readonly string[], columns: Table["columns"]): Table =>
  table(name, { schema: "ops", doc, key, columns });

/** Service that the warehouse's data comes from; a single row. */
export const warehouseIdentity = ops(
  "warehouse_identity",
  "Service that this warehouse's data comes from; runs against a different one are rejected.",
  [],
  [
    column("service_host", "text", "none", "Host and port; `sandbox:SEED` for the sandbox.", true),
    column("org_id", "text", "none", "Organization; null until known."),
    column("created_at", "timestamptz", "none", "When the warehouse was set up.", true),
    column(
      "ledger_from",
      "timestamptz",
      "none",
      "Time since which `api_call` is complete; null if `retention` removed nothing.",
    ),
  ],
);

/** Commands that write rows outside of jobs. They are registered under these names, which no job can have. */
export const writers = ["erase", "rejects", "retention"] as const;
export type Writer = (typeof writers)[number];

/** One row per run, job and shard. */
export const syncRun = ops(
  "sync_run",
  "One row per run, job and shard, updated while it runs.",
  ["run_id", "job", "shard"],
  [
    column("run_id", "text", "none", "The run."),
    column(
      "job",
      "text",
      "none",
      "The job; `erase`, `rejects` or `retention` for what these commands wrote.",
    ),
    column("shard", "text", "none", "`I/N`; `0/1` without shards."),
    column("job_type", "text", "none", "Type of the job.", true),
    column("status", "text", "none", "`running`, then the status of `run --json`.", true),
    column("limited_by", "text", "none", "Limit that ended the run early."),
    column("started_at", "timestamptz", "none", "Start, by the warehouse's clock.", true),
    column("finished_at", "timestamptz", "none", "End, by the warehouse's clock."),
    ...Object.entries(runCounters).map(([name, doc]) => column(name, "integer", "none", doc, true)),
    column("records_due", "integer", "none", "Rows due at the start, before any cap.", true),
    column("error", "text", "none", "Cause of the failure."),
  ],
);

/** Read position of each feed. */
export const checkpoint = ops(
  "checkpoint",
  "Read position of each stream of a job.",
  ["job", "stream"],
  [
    column("job", "text", "none", "The job."),
    column("stream", "text", "none", "The stream within the job."),
    column("cursor", "json", "none", "Position to resume from."),
    column("updated_at", "timestamptz", "none", "When it last changed.", true),
    column("run_id", "text", "none", "Run that changed it.", true),
  ],
);

/** Gaps of a feed. */
export const syncGap = ops(
  "sync_gap",
  "Periods that a free job can no longer read from the service.",
  ["job", "stream", "gap_start"],
  [
    column("job", "text", "none", "The job."),
    column("stream", "text", "none", "The stream within the job."),
    column("gap_start", "timestamptz", "none", "Start of the gap (inclusive)."),
    column("gap_end", "timestamptz", "none", "End of the gap (exclusive).", true),
    column("noticed_at", "timestamptz", "none", "When the gap was noticed.", true),
  ],
);

/** Fields in answers that differ from their declaration. */
export const schemaDrift = ops(
  "schema_drift",
  "Fields in the service's answers that differ from their declaration.",
  ["endpoint", "path", "kind"],
  [
    column("endpoint", "text", "none", "Method and path."),
    column("path", "text", "none", "Path within the result record, `[]` for lists."),
    column("kind", "text", "none", "`unknown_field` or `unexpected_type`."),
    column(
      "observed_type",
      "text",
      "none",
      "JSON type last seen, `nul_character` or `lone_surrogate`.",
      true,
    ),
    column("occurrences", "integer", "none", "Number of occurrences.", true),
    column("first_seen_at", "timestamptz", "none", "When it was first received.", true),
    column("last_seen_at", "timestamptz", "none", "When it was last received.", true),
  ],
);

/** Coverage of each input at the end of each run. */
export const inputCoverage = ops(
  "input_coverage",
  "Rows and answers of each input at the end of each run.",
  ["run_id", "job", "shard", "source"],
  [
    column("run_id", "text", "none", "The run."),
    column("job", "text", "none", "The job."),
    column("shard", "text", "none", "`I/N`; `0/1` without shards."),
    column("source", "text", "none", "Name of the input."),
    column("input_rows", "integer", "none", "Rows read (validate_emails: distinct addresses).", true),
    column("answered", "integer", "none", "Rows with an answer.", true),
    column("matched", "integer", "none", "Rows whose last answer matched.", true),
    column("unmatched", "integer", "none", "Rows whose last answer did not match.", true),
    column("rejected", "integer", "none", "Rejected rows.", true),
    column("due", "integer", "none", "Rows still due at the end.", true),
    column("oldest_answer_at", "timestamptz", "none", "Time of the oldest answer."),
  ],
);
