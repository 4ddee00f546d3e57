import { inputRowKey } from "./answer.ts";
import { column, type NamesPeople, type Table, table } from "./table.ts";

/** Slots of the schedules, with their scheduler and outcome. */
export const scheduleSlot: Table = table("schedule_slot", {
  schema: "state",
  doc: "Slots of the jobs' schedules: a scheduler claims a slot's row before it runs the job.",
  key: ["job", "slot"],
  people: "nobody",
  columns: [
    column("job", "text", "none", "The job."),
    column(
      "slot",
      "text",
      "none",
      "Wall time and zone for fixed hours, otherwise the instant; `first`: when the job was first scheduled.",
    ),
    column("due_at", "timestamptz", "none", "When it was due.", true),
    column("run_id", "text", "none", "Run of the slot; null if none ran."),
    column(
      "status",
      "text",
      "none",
      "`claimed`, `given_back`, `watched`, `missed`, or the outcome of the job.",
      true,
    ),
    column("owner", "text", "none", "Scheduler that claimed it.", true),
    column("host", "text", "none", "Machine of the scheduler."),
    column("pid", "integer", "none", "Process of the scheduler."),
    column("attempts", "integer", "none", "Number of claims.", true),
    column("claimed_at", "timestamptz", "none", "When it was last claimed, by the warehouse's clock.", true),
    column("expires_at", "timestamptz", "none", "When another scheduler may claim it.", true),
    column("ended_at", "timestamptz", "none", "When it ended; null before."),
  ],
});

/** States that alerts reported, so that each change is reported once. */
export const alertState: Table = table("alert_state", {
  schema: "state",
  doc: "State of each subject of alerts, and the state last reported.",
  key: ["subject"],
  people: "nobody",
  columns: [
    column("subject", "text", "none", "`job NAME`, `freshness NAME`, or `budget TYPE PERIOD`."),
    column("state", "text", "none", "`ok`, or a code.", true),
    column("told_state", "text", "none", "State last reported.", true),
    column("changed_at", "timestamptz", "none", "When it entered this state.", true),
    column("told_at", "timestamptz", "none", "When it was last reported; null if never."),
  ],
});

const state = (
  name: string,
  doc: string,
  key: readonly string[],
  people: NamesPeople | "nobody",
  columns: Table["columns"],
): Table => table(name, { schema: "state", doc, key, people, columns });

/** Content of each input row, as last read. */
export const lookupRow = state(
  "lookup_row",
  "What each input row would send, as last read, by job. A row is read again when its fingerprint differs or is null.",
  inputRowKey.map((c) => c.name),
  { emails: ["source_key"], isOfInputRow: true },
  [
    ...inputRowKey,
    column(
      "fingerprint",
      "bytes",
      "indirect",
      "Fingerprint of the row; null to read it again: it left the input, waits, shares its key, or its PID changed.",
    ),
    column(
      "content",
      "bytes",
      "indirect",
      "SHA-256 of the record that it would send; null if it waits or names an erased person, and for validate_emails.",
    ),
    column("missing_since", "timestamptz", "none", "When a run first missed the row; null if it is present."),
    column("missing_runs", "position", "none", "Number of runs that missed it; null if it is present."),
    column("missing_run_id", "text", "none", "Last run that missed it; null if it is present."),
  ],
);

/** Answer to each content. */
export const lookupAnswer = state(
  "lookup_answer",
  "Answer to each content that was sent, for all rows that have it: a content with a fresh answer isn't sent again.",
  ["kind", "content"],
  { pids: ["service_pid", "sent_service_pid"] },
  [
    column("kind", "text", "none", "Endpoint and request parameters that shape the answer."),
    column(
      "content",
      "bytes",
      "direct",
      "SHA-256 of the record sent; for validate_emails the address itself.",
    ),
    column("outcome", "text", "none", "`matched`, `unmatched` or `rejected`.", true),
    column("service_pid", "text", "direct", "PID of the match."),
    column("sent_service_pid", "text", "direct", "PID sent with the record (`pid_from`)."),
    column("match_score", "numeric", "none", "Score of the match."),
    column("is_resolvable_record", "boolean", "none", "True if the service could use the record (resolve)."),
    column("validation_errors", "json", "none", "Problems in the record reported by the service."),
    column("extra", "json", "sensitive", "Values of the answer without a declared column."),
    column("reject", "json", "none", "Stage, code, message and details of a rejected content."),
    column("api_request_id", "text", "none", "The service's ID of the answering call."),
    column("request_completed_at", "timestamptz", "none", "When the service completed that call."),
    column(
      "answered_at",
      "timestamptz",
      "none",
      "When that call was reserved, by the warehouse's clock.",
      true,
    ),
    column(
      "call_number",
      "integer",
      "none",
      "Order of that call: answers of earlier calls are ignored.",
      true,
    ),
    column("call_id", "uuid", "none", "That call (`api_call`); null if rejected without one."),
    column(
      "is_first",
      "boolean",
      "none",
      "True if the content had no earlier answer: first answers expire early.",
      true,
    ),
  ],
);

/** Contents that are due. */
export const lookupDue = state(
  "lookup_due",
  "Contents that are due, and the run that claimed each. A claim is free once the lock of its owner isn't held any more.",
  ["kind", "content"],
  // An erasure also looks into the records (see remove.ts).
  { pids: ["sent_service_pid"] },
  [
    column("kind", "text", "none", "Endpoint and request parameters that shape the answer."),
    column("content", "bytes", "direct", "SHA-256 of the record; for validate_emails the address itself."),
    column("record", "text", "sensitive", "Record to send, as JSON; null if it isn't claimed."),
    column("sent_service_pid", "text", "direct", "PID in the record (`pid_from`)."),
    column("job", "text", "none", "Job that claimed it; null if unclaimed."),
    column("shard", "text", "none", "Shard that claimed it."),
    column("epoch", "integer", "none", "Epoch of the owner's lock."),
    column("rows", "integer", "none", "Rows of the owner's input that have it.", true),
    column(
      "was_rejected",
      "boolean",
      "none",
      "True if a row with this content may have an open reject.",
      true,
    ),
    column("is_sent", "boolean", "none", "True if it was sent in this run and got no answer.", true),
  ],
);

/** Content hashes of each stored person by field group. */
export const personState = state(
  "person_state",
  "Hash and call of each field group of each person: unchanged groups are not rewritten, answers of earlier calls are ignored.",
  ["service_pid"],
  { pids: ["service_pid"] },
  [
    column("service_pid", "text", "direct", "PID of the person."),
    column(
      "group_hashes",
      "text",
      "indirect",
      "Content hash of each field group, 16 characters each, in declared order.",
      true,
    ),
    column(
      "call_number",
      "integer",
      "none",
      "Lowest number of a call that answered a group; 0 if a group was never answered.",
      true,
    ),
    column("group_call_numbers", "json", "none", "Numbers of later calls, by field group."),
  ],
);

/** Owner of each job, or of a shard of it; rows stay after release. */
export const jobLock = state(
  "job_lock",
  "Owner of each job, or of a shard of it; held until released or expired.",
  ["job", "shard"],
  "nobody",
  [
    column("job", "text", "none", "The job."),
    column("shard", "text", "none", "`I/N`; `0/1` without shards."),
    column(
      "epoch",
      "integer",
      "none",
      "Incremented for each owner; commits under an older one are rejected.",
      true,
    ),
    column("owner_token", "text", "none", "Suffix of `person-etl` in the owner's application_name.", true),
    column("run_id", "text", "none", "The owner's run.", true),
    column("host", "text", "none", "The owner's host.", true),
    column("pid", "integer", "none", "The owner's process.", true),
    column("machine", "text", "none", "Boot ID and PID namespace; null where unavailable."),
    column("process_start", "text", "none", "Start of the process, in clock ticks of its system."),
    column("acquired_at", "timestamptz", "none", "When it was acquired, by the warehouse's clock.", true),
    column("heartbeat_at", "timestamptz", "none", "The owner's last heartbeat.", true),
    column("expires_at", "timestamptz", "none", "When others may take over.", true),
    column("released_at", "timestamptz", "none", "When it was released; null while held."),
  ],
);

/** Requests for locks of jobs. */
export const jobRequest = state(
  "job_request",
  "One row per job, by which requests for its lock exclude each other.",
  ["job"],
  "nobody",
  [column("job", "text", "none", "The job.")],
);

/** Records reserved per budget and cap. */
export const budgetUse = state(
  "budget_use",
  "Records reserved per budget and period: increased before each call, decreased if nothing was billed.",
  ["budget", "period", "period_key"],
  "nobody",
  [
    column("budget", "text", "none", "Job type of a budget; the job for the caps of a run."),
    column("period", "text", "none", "`day`, `month` (UTC, by the warehouse's clock), `run` or `shard`."),
    column("period_key", "text", "none", "`2026-11-21`, `2026-11`, the run ID, or the run ID and shard."),
    column("records_reserved", "integer", "none", "Records reserved.", true),
  ],
);

/** Disks with answers that may not be loaded. */
export const spoolPlace = state(
  "spool_place",
  "Disks that may hold answers of a job, or of a shard of it: until a run there ends with an empty spool, or an erasure finds it empty.",
  ["disk_id", "job", "shard"],
  "nobody",
  [
    column("disk_id", "text", "none", "Random ID, kept in its `data_dir`."),
    column("job", "text", "none", "The job."),
    column("shard", "text", "none", "`I/N`; `0/1` without shards."),
    column("host", "text", "none", "Host of the first such run.", true),
    column("folder", "text", "none", "Folder of the spool on it.", true),
    column("epoch", "integer", "none", "Epoch of that run's lock.", true),
    column(
      "since",
      "timestamptz",
      "none",
      "Start of that run: no call of an earlier one can be there.",
      true,
    ),
  ],
);

/** Loads of each table; source of the view `table_freshness`. */
export const tableLoad = state(
  "table_load",
  "When each job last changed each table, and last succeeded in loading it.",
  ["table_name", "job"],
  "nobody",
  [
    column("table_name", "text", "none", "The table."),
    column("job", "text", "none", "The job."),
    column(
      "last_success_at",
      "timestamptz",
      "none",
      "End of the last success; runs that ended at your own cap or budget are included.",
    ),
    column("last_changed_at", "timestamptz", "none", "Last change of a row."),
  ],
);

/** Parameters of each lookup job. */
export const lookupJob = state(
  "lookup_job",
  "Parameters of each lookup job, as last accepted, by input.",
  ["job", "source"],
  "nobody",
  [
    column("job", "text", "none", "The job."),
    column("source", "text", "none", "Name of its input."),
    column("kind", "text", "none", "Endpoint and request parameters that shape its answers.", true),
    column("mapping", "text", "none", "Hash of everything else that shapes its records.", true),
    column("pid_from", "text", "none", "Job whose PIDs it sends."),
    column(
      "input_definition",
      "text",
      "none",
      "Hash of the definition of the input; missing rows are counted under one.",
      true,
    ),
    column(
      "resend_below",
      "integer",
      "none",
      "`--resend` replaces answers of calls with a lower number; null before the first.",
    ),
    column(
      "refresh_after_ms",
      "integer",
      "none",
      "Longest age of an answer, in milliseconds; null for no limit.",
    ),
    column(
      "retired_at",
      "timestamptz",
      "none",
      "When a run found that it isn't configured any more; else null.",
    ),
  ],
);
