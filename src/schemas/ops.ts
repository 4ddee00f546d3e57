import { boolean, bytes, integer, json, oneOf, text, timestamptz, uuid } from "./field.ts";
import { table } from "./table.ts";

/** Has no values of records: a retry reads the input again. */
export const reject = table("reject", {
  schema: "data",
  doc: "Records that could not be processed, with the cause; never their values.",
  key: ["reject_id"],
  // The key of a row may be an address or, for a segment_push, a PID.
  people: { pids: ["source_key"], emails: ["source_key"], isOfInputRow: true },
  columns: {
    reject_id: uuid("none", "ID of the reject."),
    run_id: text("none", "Run that rejected the record.", "required"),
    job: text("none", "Name of the job.", "required"),
    source: text("none", "Name of the input.", "required"),
    source_key: text("direct", "The input row's key; for validate_emails the address."),
    stage: oneOf(
      ["input", "send", "answer", "load"],
      "`input` (before sending), `send` (rejected by the service), `answer` or `load` (rejected by the warehouse).",
      "required",
    ),
    code: text("none", "Stable code of the cause.", "required"),
    message: text("none", "The cause as a sentence.", "required"),
    details: json("none", "Paths and expected types, never values."),
    api_request_id: text("none", "The service's ID of the call."),
    created_at: timestamptz("none", "When it was rejected.", "required"),
    resolved_at: timestamptz("none", "When the record was processed or the reject dropped."),
  },
});

export const tombstone = table("tombstone", {
  schema: "data",
  doc: "Recent erasures: rows to delete from copies of these tables. Kept for `erasure_notice`.",
  key: ["tombstone_id"],
  people: "kept",
  columns: {
    tombstone_id: uuid("none", "ID of the tombstone."),
    service_pid: text("direct", "Erased PID; null for an input row."),
    source: text("none", "Input of the erased row."),
    source_key: text("direct", "Key of the erased row."),
    erased_at: timestamptz("none", "When the erasure was requested.", "required"),
  },
});

export const erasureSubject = table("erasure_subject", {
  schema: "ops",
  doc: "Erased people, as keyed hashes: later runs neither send nor store them.",
  key: ["erasure_id", "kind", "subject_hash"],
  columns: {
    erasure_id: uuid("none", "ID of the erasure; all identifiers of one person share it."),
    kind: oneOf(
      ["pid", "email", "source_key", "content"],
      "`pid`, `email`, `source_key`, or `content`: the values of a row, if no other row has the same.",
    ),
    subject_hash: bytes("none", "HMAC-SHA256 of the identifier's kind and value."),
    key_id: text("none", "ID of the hash key.", "required"),
    requested_at: timestamptz("none", "When the erasure was requested.", "required"),
    completed_at: timestamptz(
      "none",
      "When the person was removed from every table and destination; null while pending.",
    ),
    rows_removed: integer("none", "Rows that the whole erasure removed from all tables.", "required"),
  },
});

export const erasureKey = table("erasure_key", {
  schema: "state",
  doc: "Single row: key of the erasure hashes, and number of erasures so far.",
  key: ["name"],
  people: "nobody",
  columns: {
    name: text("none", "Always `erasure`."),
    epoch: integer("none", "Number of erasures so far.", "required"),
    key_id: text("none", "ID of the key; null before the first erasure."),
    made_key: text("none", "The key in hex if it was generated here; null if it is configured."),
  },
});

export const erasureRequest = table("erasure_request", {
  schema: "state",
  doc: "Pending erasures: identifiers to remove, and the runs that must end first.",
  key: ["request_id"],
  people: "kept",
  columns: {
    request_id: uuid("none", "ID of the request."),
    erasure_id: uuid("none", "The erasure (`erasure_subject`).", "required"),
    people: json("direct", "PIDs, addresses and input rows to remove, found at the request.", "required"),
    waits_for: json(
      "none",
      "Jobs that were running when the request was made, with their locks.",
      "required",
    ),
    is_final: boolean("none", "True if the rows were removed after all of these runs had ended.", "required"),
    requested_at: timestamptz("none", "When the erasure was requested.", "required"),
  },
});

const counter = (doc: string) => integer("none", doc, "required");

/** Counters of `run --json`, in its order; in input rows unless stated otherwise. */
export const runCounters = {
  records_read: counter("Input rows read (validate_emails: every occurrence of an address)."),
  records_unchanged: counter("Rows that were not due."),
  records_duplicate: counter(
    "Due rows with the same content as a record that was already sent or processed.",
  ),
  records_suppressed: counter("Rows skipped because the person was erased."),
  records_sent: counter("Distinct records sent at least once."),
  records_matched: counter("Distinct sent records that matched."),
  records_rejected: counter("Records rejected in this run, before or after sending."),
  records_rejected_before_sending: counter("Rows rejected without a call."),
  records_waiting: counter("Rows waiting for another job (`pid_from`)."),
  records_remaining: counter("Due rows that were not sent."),
  rows_written: counter("Warehouse rows inserted, updated or deleted."),
  requests: counter("HTTP requests, including retries."),
  retries: counter("HTTP requests that retried an earlier one."),
  possibly_billed_twice: counter("Records sent again after an attempt that may have been billed."),
  records_received: counter("Records that a free job received."),
  records_added: counter("Members that a push added to its segment."),
  records_redundant: counter("PIDs of a push that were members already."),
  records_removed: counter("Members that a push removed from its segment."),
};

export type RunCounter = keyof typeof runCounters;

/** Names of the counters, in order. */
export const counterNames = Object.keys(runCounters) as RunCounter[];

export const warehouseIdentity = table("warehouse_identity", {
  schema: "ops",
  doc: "Service from which this warehouse's data comes; runs against another one are refused.",
  key: [],
  columns: {
    service_host: text(
      "none",
      "Host and port; `sandbox:SEED` for the sandbox, `sandbox:SEED@HOST:PORT` for one that runs alone.",
      "required",
    ),
    org_id: text("none", "Organization; null until known."),
    created_at: timestamptz("none", "When the warehouse was set up.", "required"),
    ledger_from: timestamptz(
      "none",
      "Time since which `api_call` is complete; null if `retention` removed nothing.",
    ),
  },
});

/** Commands that write rows outside of jobs. They are registered under these names, which no job can have. */
export const writers = ["erase", "rejects", "retention"] as const;
export type Writer = (typeof writers)[number];

export const syncRun = table("sync_run", {
  schema: "ops",
  doc: "One row per run, job and shard, updated while it runs.",
  key: ["run_id", "job", "shard"],
  columns: {
    run_id: text("none", "The run."),
    job: text("none", "The job; `erase`, `rejects` or `retention` for what these commands wrote."),
    shard: text("none", "`I/N`; `0/1` without shards."),
    job_type: text("none", "Type of the job.", "required"),
    status: oneOf(
      ["running", "succeeded", "limited", "failed", "skipped", "interrupted"],
      "`running`, then the status of `run --json`.",
      "required",
    ),
    limited_by: text("none", "Limit that ended the run early."),
    started_at: timestamptz("none", "Start, by the warehouse's clock.", "required"),
    finished_at: timestamptz("none", "End, by the warehouse's clock."),
    ...runCounters,
    records_due: integer("none", "Rows due at the start, before any cap.", "required"),
    error: text("none", "Cause of the failure."),
  },
});

export const checkpoint = table("checkpoint", {
  schema: "ops",
  doc: "Read position of each stream of a job.",
  key: ["job", "stream"],
  columns: {
    job: text("none", "The job."),
    stream: text("none", "The stream within the job."),
    cursor: json("none", "Position to resume from."),
    updated_at: timestamptz("none", "When it last changed.", "required"),
    run_id: text("none", "Run that changed it.", "required"),
  },
});

export const syncGap = table("sync_gap", {
  schema: "ops",
  doc: "Periods that a free job can no longer read from the service.",
  key: ["job", "stream", "gap_start"],
  columns: {
    job: text("none", "The job."),
    stream: text("none", "The stream within the job."),
    gap_start: timestamptz("none", "Start of the gap (inclusive)."),
    gap_end: timestamptz("none", "End of the gap (exclusive).", "required"),
    noticed_at: timestamptz("none", "When the gap was noticed.", "required"),
  },
});

export const schemaDrift = table("schema_drift", {
  schema: "ops",
  doc: "Fields in the service's responses that differ from their declaration.",
  key: ["endpoint", "path", "kind"],
  columns: {
    endpoint: text("none", "Method and path."),
    path: text("none", "Path within the result record, `[]` for lists."),
    kind: oneOf(["unknown_field", "unexpected_type"], "`unknown_field` or `unexpected_type`."),
    observed_type: text("none", "JSON type last seen, `nul_character` or `lone_surrogate`.", "required"),
    occurrences: integer("none", "Number of occurrences.", "required"),
    first_seen_at: timestamptz("none", "When it was first received.", "required"),
    last_seen_at: timestamptz("none", "When it was last received.", "required"),
  },
});

export const inputCoverage = table("input_coverage", {
  schema: "ops",
  doc: "Rows and responses of each input at the end of each run.",
  key: ["run_id", "job", "shard", "source"],
  columns: {
    run_id: text("none", "The run."),
    job: text("none", "The job."),
    shard: text("none", "`I/N`; `0/1` without shards."),
    source: text("none", "Name of the input."),
    input_rows: integer("none", "Rows read (validate_emails: distinct addresses).", "required"),
    answered: integer("none", "Rows with a response.", "required"),
    matched: integer("none", "Rows whose last response was a match.", "required"),
    unmatched: integer("none", "Rows whose last response was no match.", "required"),
    rejected: integer("none", "Rejected rows.", "required"),
    due: integer("none", "Rows still due at the end.", "required"),
    oldest_answer_at: timestamptz("none", "Time of the oldest response."),
  },
});
