import { column, type Table, table } from "./table.ts";

/** The counters of the first tables, in the order of `run --json`; all in input rows but where the doc says otherwise. */
const firstCounters = {
  records_read: "Input rows read (validate_emails: addresses as they occur).",
  records_unchanged: "Rows that were not due.",
  records_duplicate: "Due rows with content equal to one that was sent, or answered before.",
  records_suppressed: "Rows kept back because the person was erased.",
  records_sent: "Distinct records sent at least once.",
  records_matched: "Distinct records sent that matched.",
  records_rejected: "Records rejected in this run, before or after sending.",
  records_rejected_before_sending: "Rows rejected before they cost a call.",
  records_waiting: "Rows that wait for another job (`pid_from`).",
  records_remaining: "Due rows that were not sent.",
  rows_written: "Warehouse rows inserted, changed or removed.",
  requests: "HTTP requests, retries included.",
  retries: "HTTP requests that repeated an earlier one.",
  possibly_billed_twice: "Records sent again after an outcome that left open whether they were charged.",
} as const;

/** Counters that later migrations added. */
const addedCounters = {
  records_received: "Records that a free feed gave; input rows have none.",
} as const;

/** The counters of `run --json`, in its order. */
export const runCounters = { ...firstCounters, ...addedCounters } as const;

/** One of the counters of `run --json`. */
export type RunCounter = keyof typeof runCounters;

const ops = (
  name: string,
  doc: string,
  key: readonly string[],
  columns: Table["columns"],
  added: Table["columns"] = [],
): Table => table(name, { room: "ops", doc, key, columns, added });

/** Which service this warehouse was filled from: one row. */
export const warehouseIdentity = ops(
  "warehouse_identity",
  "Which service this warehouse was filled from; a run against another one is refused.",
  [],
  [
    column("service_host", "text", "none", "Host and port; `sandbox:SEED` for the sandbox.", true),
    column("org_id", "text", "none", "Organization, once known."),
    column("created_at", "timestamptz", "none", "When the warehouse was set up.", true),
  ],
  [
    column(
      "ledger_from",
      "timestamptz",
      "none",
      "From when on `api_call` is whole: `retention` has removed calls from before; null where it never did.",
    ),
  ],
);

/** One row per run, job and shard. */
export const syncRun = ops(
  "sync_run",
  "One row per run, job and shard, kept up to date while it runs.",
  ["run_id", "job", "shard"],
  [
    column("run_id", "text", "none", "The run."),
    column("job", "text", "none", "The job."),
    column("shard", "text", "none", "`I/N`; `0/1` without shards."),
    column("job_type", "text", "none", "Type of the job.", true),
    column("status", "text", "none", "`running`, or the status of `run --json`.", true),
    column("limited_by", "text", "none", "What ended it early."),
    column("started_at", "timestamptz", "none", "Start, by the warehouse's clock.", true),
    column("finished_at", "timestamptz", "none", "End, by the warehouse's clock."),
    ...Object.entries(firstCounters).map(([name, doc]) => column(name, "integer", "none", doc, true)),
    column("records_due", "integer", "none", "Rows that were due at the start, before any cap.", true),
    column(
      "safe_until",
      "timestamptz",
      "none",
      "Every row of this run with an older `_synced_at` is committed.",
    ),
    column("error", "text", "none", "Why it failed."),
  ],
  Object.entries(addedCounters).map(([name, doc]) => column(name, "integer", "none", doc, true)),
);

/** Who runs each job, or a shard of it; one row each, which stays after its release. */
export const jobLock = ops(
  "job_lock",
  "Who runs each job, or a shard of it; held until it is released or, for want of heartbeats, expires.",
  ["job", "shard"],
  [
    column("job", "text", "none", "The job."),
    column("shard", "text", "none", "`I/N`; `0/1` without shards."),
    column("epoch", "integer", "none", "Raised with every owner; nothing commits under an older one.", true),
    column("owner_token", "text", "none", "The owner's sessions are called `person-etl` and this.", true),
    column("run_id", "text", "none", "The owner's run.", true),
    column("host", "text", "none", "Machine of the owner.", true),
    column("pid", "integer", "none", "Process of the owner.", true),
    column("machine", "text", "none", "Running system and process namespace; null where it can't be told."),
    column("process_start", "text", "none", "When the process was started, in the system's own ticks."),
    column("acquired_at", "timestamptz", "none", "Since when it is held, by the warehouse's clock.", true),
    column("heartbeat_at", "timestamptz", "none", "The owner's last sign of life.", true),
    column("expires_at", "timestamptz", "none", "From then on others may take over.", true),
    column("released_at", "timestamptz", "none", "When the owner gave it back; null while it is held."),
  ],
);

/** How far a feed has been read. */
export const checkpoint = ops(
  "checkpoint",
  "How far each stream of a job has been read.",
  ["job", "stream"],
  [
    column("job", "text", "none", "The job."),
    column("stream", "text", "none", "The stream within the job."),
    column("cursor", "json", "none", "Where to go on."),
    column("updated_at", "timestamptz", "none", "When it was moved.", true),
    column("run_id", "text", "none", "Run that moved it.", true),
  ],
);

/** What a feed can't give any more. */
export const syncGap = ops(
  "sync_gap",
  "Spans of a feed that can't be read any more, because nobody read them while the service still had them.",
  ["job", "stream", "gap_start"],
  [
    column("job", "text", "none", "The job."),
    column("stream", "text", "none", "The stream within the job."),
    column("gap_start", "timestamptz", "none", "Begin of the gap (inclusive)."),
    column("gap_end", "timestamptz", "none", "End of the gap (exclusive).", true),
    column("noticed_at", "timestamptz", "none", "When it was noticed.", true),
  ],
);

/** The ledger: one row per attempt of a call, from before it is sent. */
export const apiCall = ops(
  "api_call",
  "The ledger: one row per attempt of a call to the service, written before it is sent where it may cost money.",
  ["call_id"],
  [
    column("call_id", "uuid", "none", "The attempt."),
    column("run_id", "text", "none", "The run.", true),
    column("job", "text", "none", "The job.", true),
    column("endpoint", "text", "none", "Method and path.", true),
    column("api_request_id", "text", "none", "The service's id of the call."),
    column("started_at", "timestamptz", "none", "When it was sent.", true),
    column("request_completed_at", "timestamptz", "none", "When the service says it completed it."),
    column("milliseconds", "integer", "none", "Until the whole answer was read."),
    column("http_status", "integer", "none", "Status; null without an answer."),
    column("attempt", "position", "none", "1-based try of this batch.", true),
    column("records_sent", "integer", "none", "Records in the body.", true),
    column("records_matched", "integer", "none", "Results with a match; null without results."),
    column("response_bytes", "integer", "none", "Bytes of the answer's body, decompressed.", true),
    column("possibly_billed", "boolean", "none", "The outcome leaves open whether it was charged.", true),
  ],
  [
    column(
      "settled_at",
      "timestamptz",
      "none",
      "When its outcome was noted; null while it is under way, and for ever where a crash left it so.",
    ),
    column("budget", "text", "none", "Budget that it counts in: the type of its job; null for none."),
    column(
      "reserved_at",
      "timestamptz",
      "none",
      "When its records were reserved: decides the UTC day and month that they count in.",
    ),
    column(
      "records_reserved",
      "integer",
      "none",
      "Records that count in budgets and caps; 0 once it is known that nothing was charged.",
      true,
    ),
    column(
      "records_possibly_billed_twice",
      "integer",
      "none",
      "Records that an earlier call without an answer may have been charged for as well.",
      true,
    ),
    column(
      "is_sent",
      "boolean",
      "none",
      "The service may have seen it: false where no connection came about; null while it is under way, and of earlier versions.",
    ),
  ],
);

/** What was reserved of each budget and cap. */
export const budgetUse = ops(
  "budget_use",
  "Records reserved so far, per budget and period: raised before each call, lowered when nothing was charged.",
  ["budget", "period", "period_key"],
  [
    column("budget", "text", "none", "Type of job that a budget is for; the job for the caps of a run."),
    column(
      "period",
      "text",
      "none",
      "`day`, `month` (both UTC, by the warehouse's clock), `run` or `shard`.",
    ),
    column("period_key", "text", "none", "`2026-11-21`, `2026-11`, the run's id, or that with a shard."),
    column("records_reserved", "integer", "none", "Records that count.", true),
  ],
);

/** Fields of the service that differ from what is declared. */
export const schemaDrift = ops(
  "schema_drift",
  "Fields of the service that differ from what is declared.",
  ["endpoint", "path", "kind"],
  [
    column("endpoint", "text", "none", "Method and path."),
    column("path", "text", "none", "From the result record on, `[]` for lists."),
    column("kind", "text", "none", "`unknown_field` or `unexpected_type`."),
    column(
      "observed_type",
      "text",
      "none",
      "JSON type last seen, `nul_character` or `lone_surrogate`.",
      true,
    ),
    column("occurrences", "integer", "none", "How often.", true),
    column("first_seen_at", "timestamptz", "none", "First seen.", true),
    column("last_seen_at", "timestamptz", "none", "Last seen.", true),
  ],
);

/** How much of an input has an answer, at the end of each run. */
export const inputCoverage = ops(
  "input_coverage",
  "How much of each input has an answer, at the end of each run.",
  ["run_id", "job", "shard", "source"],
  [
    column("run_id", "text", "none", "The run."),
    column("job", "text", "none", "The job."),
    column("shard", "text", "none", "`I/N`; `0/1` without shards."),
    column("source", "text", "none", "Input of the configuration."),
    column("input_rows", "integer", "none", "Rows read (validate_emails: distinct addresses).", true),
    column("answered", "integer", "none", "Rows with an answer.", true),
    column("matched", "integer", "none", "Rows whose last answer matched.", true),
    column("unmatched", "integer", "none", "Rows whose last answer did not match.", true),
    column("rejected", "integer", "none", "Rows that are rejected.", true),
    column("due", "integer", "none", "Rows still due at the end.", true),
    column("oldest_answer_at", "timestamptz", "none", "Age of the oldest answer."),
  ],
);

/** When each job last changed each table; feeds the view `table_freshness`. */
export const tableLoad = ops(
  "table_load",
  "When each job last changed each table, and last succeeded in keeping it up to date.",
  ["table_name", "job"],
  [
    column("table_name", "text", "none", "The table."),
    column("job", "text", "none", "The job."),
    column("last_success_at", "timestamptz", "none", "End of the last run that succeeded."),
    column("last_changed_at", "timestamptz", "none", "Last change of a row."),
  ],
);

/** Parameters that each job's answers were bought with, as the user last accepted them. */
export const jobParameters = ops(
  "job_parameters",
  "Mapping and request parameters that each job's answers were bought with, as last accepted.",
  ["job"],
  [
    column("job", "text", "none", "The job."),
    column("parameters_hash", "text", "none", "Hash of mapping and parameters.", true),
    column("refresh_policy", "text", "none", "Refresh ages that `due_at` was computed with.", true),
    column("accepted", "text", "none", "`first`, `resend` or `keep`.", true),
    column("accepted_at", "timestamptz", "none", "When they were accepted.", true),
  ],
);
