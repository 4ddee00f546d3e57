import { inputRowKey } from "./answer.ts";
import { boolean, bytes, integer, json, numeric, position, text, timestamptz, uuid } from "./field.ts";
import { table } from "./table.ts";

export const scheduleSlot = table("schedule_slot", {
  schema: "state",
  doc: "Slots of the jobs' schedules: a scheduler claims a slot's row before it runs the job.",
  key: ["job", "slot"],
  people: "nobody",
  columns: {
    job: text("none", "The job."),
    slot: text(
      "none",
      "Wall time and zone for fixed hours, otherwise the instant; `first`: when the job was first scheduled.",
    ),
    due_at: timestamptz("none", "When it was due.", "required"),
    run_id: text("none", "Run of the slot; null if none ran."),
    status: text(
      "none",
      "`claimed`, `given_back`, `watched`, `missed`, or the outcome of the job.",
      "required",
    ),
    owner: text("none", "Scheduler that claimed it.", "required"),
    host: text("none", "Machine of the scheduler."),
    pid: integer("none", "Process of the scheduler."),
    attempts: integer("none", "Number of claims.", "required"),
    claimed_at: timestamptz("none", "When it was last claimed, by the warehouse's clock.", "required"),
    expires_at: timestamptz("none", "When another scheduler may claim it.", "required"),
    ended_at: timestamptz("none", "When it ended; null until then."),
  },
});

/** Lets each change be reported once. */
export const alertState = table("alert_state", {
  schema: "state",
  doc: "State of each subject of alerts, and the state last reported.",
  key: ["subject"],
  people: "nobody",
  columns: {
    subject: text("none", "`job NAME`, `freshness NAME`, `coverage NAME FIELD` and so on."),
    state: text("none", "`ok`, or a code; for an event, also its ID.", "required"),
    told_state: text("none", "State last reported.", "required"),
    changed_at: timestamptz("none", "When it entered this state.", "required"),
    told_at: timestamptz("none", "When it was last reported; null if never."),
  },
});

/** Kept of the newest runs only. */
export const runShare = table("run_share", {
  schema: "state",
  doc: "Matches and known fields among the records that a run of a job processed, for alerts.",
  key: ["job", "shard", "run_id"],
  people: "nobody",
  columns: {
    job: text("none", "The job."),
    shard: text("none", "`I/N`; `0/1` without shards."),
    run_id: text("none", "The run."),
    basis: text("none", "Input and kind of the responses; runs with others are not compared.", "required"),
    measured_at: timestamptz("none", "When it was measured.", "required"),
    shares: json(
      "none",
      "By measure (`new_rows`, `all_rows`, TABLE.COLUMN): the number with it, and of how many.",
    ),
  },
});

export const lookupRow = table("lookup_row", {
  schema: "state",
  doc: "What each input row would send, as last read, by job. A row is read again when its fingerprint differs or is null.",
  key: ["job", "source", "source_key"],
  people: { emails: ["source_key"], isOfInputRow: true },
  columns: {
    ...inputRowKey,
    fingerprint: bytes(
      "indirect",
      "Fingerprint of the row; null to read it again: it left the input, waits, shares its key, or its PID changed.",
    ),
    content: bytes(
      "indirect",
      "SHA-256 of the record that it would send; null if it waits or names an erased person, and for validate_emails.",
    ),
    missing_since: timestamptz("none", "When a run first missed the row; null if it is present."),
    missing_runs: position("none", "Number of runs that missed it; null if it is present."),
    missing_run_id: text("none", "Last run that missed it; null if it is present."),
  },
});

export const lookupAnswer = table("lookup_answer", {
  schema: "state",
  doc: "Response to each content that was sent, for all rows with that content: it isn't sent again until the response expires.",
  key: ["kind", "content"],
  people: { pids: ["service_pid", "sent_service_pid"] },
  columns: {
    kind: text("none", "Endpoint and request parameters that shape the response."),
    content: bytes("direct", "SHA-256 of the record sent; for validate_emails the address itself."),
    outcome: text("none", "`matched`, `unmatched` or `rejected`.", "required"),
    service_pid: text("direct", "PID of the match."),
    sent_service_pid: text("direct", "PID sent with the record (`pid_from`)."),
    match_score: numeric("none", "Score of the match."),
    is_resolvable_record: boolean("none", "True if the service could use the record (resolve)."),
    validation_errors: json("none", "Problems in the record reported by the service."),
    extra: json("sensitive", "Values of the response without a declared column."),
    reject: json("none", "Stage, code, message and details of a rejected content."),
    api_request_id: text("none", "The service's ID of the call with the response."),
    request_completed_at: timestamptz("none", "When the service completed that call."),
    answered_at: timestamptz("none", "When that call was reserved, by the warehouse's clock.", "required"),
    call_number: integer("none", "Order of that call: responses of earlier calls are ignored.", "required"),
    call_id: uuid("none", "That call (`api_call`); null if rejected without one."),
    is_first: boolean(
      "none",
      "True if the content had no earlier response: first responses expire early.",
      "required",
    ),
  },
});

export const lookupDue = table("lookup_due", {
  schema: "state",
  doc: "Contents that are due, and the run that claimed each. A claim is free once its owner no longer has the lock.",
  key: ["kind", "content"],
  // An erasure also looks into the records (see remove.ts).
  people: { pids: ["sent_service_pid"] },
  columns: {
    kind: text("none", "Endpoint and request parameters that shape the response."),
    content: bytes("direct", "SHA-256 of the record; for validate_emails the address itself."),
    record: text("sensitive", "Record to send, as JSON; null if it isn't claimed."),
    sent_service_pid: text("direct", "PID in the record (`pid_from`)."),
    job: text("none", "Job that claimed it; null if unclaimed."),
    shard: text("none", "Shard that claimed it."),
    epoch: integer("none", "Epoch of the owner's lock."),
    rows: integer("none", "Rows of the owner's input that have it.", "required"),
    was_rejected: boolean("none", "True if a row with this content may have an open reject.", "required"),
    is_sent: boolean("none", "True if it was sent in this run without a response.", "required"),
  },
});

export const personState = table("person_state", {
  schema: "state",
  doc: "Hash and call of each field group of each person: unchanged groups are not rewritten, responses of earlier calls are ignored.",
  key: ["service_pid"],
  people: { pids: ["service_pid"] },
  columns: {
    service_pid: text("direct", "PID of the person."),
    group_hashes: text(
      "indirect",
      "Content hash of each field group, 16 characters each, in declared order.",
      "required",
    ),
    call_number: integer(
      "none",
      "Lowest number of a call with a response for a group; 0 if a group never had one.",
      "required",
    ),
    group_call_numbers: json("none", "Numbers of later calls, by field group."),
  },
});

/** Owner of each job, or of a shard of it; rows stay after release. */
export const jobLock = table("job_lock", {
  schema: "state",
  doc: "Owner of each job, or of a shard of it, until released or expired.",
  key: ["job", "shard"],
  people: "nobody",
  columns: {
    job: text("none", "The job."),
    shard: text("none", "`I/N`; `0/1` without shards."),
    epoch: integer(
      "none",
      "Incremented for each owner; commits under an older one are rejected.",
      "required",
    ),
    owner_token: text("none", "Suffix of `person-etl` in the owner's application_name.", "required"),
    run_id: text("none", "The owner's run.", "required"),
    host: text("none", "The owner's host.", "required"),
    pid: integer("none", "The owner's process.", "required"),
    machine: text("none", "Boot ID and PID namespace; null where unavailable."),
    process_start: text("none", "Start of the process, in clock ticks of its system."),
    acquired_at: timestamptz("none", "When it was acquired, by the warehouse's clock.", "required"),
    heartbeat_at: timestamptz("none", "The owner's last heartbeat.", "required"),
    expires_at: timestamptz("none", "When others may take over.", "required"),
    released_at: timestamptz("none", "When it was released; null while locked."),
  },
});

export const jobRequest = table("job_request", {
  schema: "state",
  doc: "One row per job: requests for its lock wait for each other on it.",
  key: ["job"],
  people: "nobody",
  columns: { job: text("none", "The job.") },
});

export const budgetUse = table("budget_use", {
  schema: "state",
  doc: "Records reserved per budget and period: increased before each call, decreased if nothing was billed.",
  key: ["budget", "period", "period_key"],
  people: "nobody",
  columns: {
    budget: text("none", "Job type of a budget; the job for the caps of a run."),
    period: text("none", "`day`, `month` (UTC, by the warehouse's clock), `run` or `shard`."),
    period_key: text("none", "`2026-11-21`, `2026-11`, the run ID, or the run ID and shard."),
    records_reserved: integer("none", "Records reserved.", "required"),
  },
});

export const spoolPlace = table("spool_place", {
  schema: "state",
  doc: "Disks that may have responses of a job, or of a shard of it, until a run there ends with an empty spool, or an erasure finds it empty.",
  key: ["disk_id", "job", "shard"],
  people: "nobody",
  columns: {
    disk_id: text("none", "Random ID, kept in its `data_dir`."),
    job: text("none", "The job."),
    shard: text("none", "`I/N`; `0/1` without shards."),
    host: text("none", "Host of the first such run.", "required"),
    folder: text("none", "Folder of the spool on it.", "required"),
    epoch: integer("none", "Epoch of that run's lock.", "required"),
    since: timestamptz("none", "Start of that run: no call of an earlier one can be there.", "required"),
  },
});

export const tableLoad = table("table_load", {
  schema: "state",
  doc: "When each job last changed each table, and last succeeded in loading it.",
  key: ["table_name", "job"],
  people: "nobody",
  columns: {
    table_name: text("none", "The table."),
    job: text("none", "The job."),
    last_success_at: timestamptz(
      "none",
      "End of the last success; runs that ended at your own cap or budget are included.",
    ),
    last_changed_at: timestamptz("none", "Last change of a row."),
  },
});

export const lookupJob = table("lookup_job", {
  schema: "state",
  doc: "Parameters of each lookup job, as last accepted, by input.",
  key: ["job", "source"],
  people: "nobody",
  columns: {
    job: text("none", "The job."),
    source: text("none", "Name of its input."),
    kind: text("none", "Endpoint and request parameters that shape its responses.", "required"),
    mapping: text("none", "Hash of everything else that shapes its records.", "required"),
    pid_from: text("none", "Job whose PIDs it sends."),
    input_definition: text(
      "none",
      "Hash of the input's definition; missing rows are counted per definition.",
      "required",
    ),
    resend_below: integer(
      "none",
      "`--resend` replaces responses of calls with a lower number; null before the first.",
    ),
    refresh_after_ms: integer("none", "Longest age of a response, in milliseconds; null for no limit."),
    retired_at: timestamptz("none", "When a run found it no longer configured; null otherwise."),
  },
});
