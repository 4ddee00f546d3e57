import { inputRowKey } from "./answer.ts";
import { column, type NamesPeople, type Table, table } from "./table.ts";

const state = (
  name: string,
  doc: string,
  key: readonly string[],
  people: NamesPeople | "nobody",
  columns: Table["columns"],
): Table => table(name, { schema: "state", doc, key, people, columns });

/** State of each input row; determines which rows are due. */
export const lookupState = state(
  "lookup_state",
  "State of each input row (validate_emails: of each address), matched or not; determines which rows are due.",
  inputRowKey.map((c) => c.name),
  { pids: ["sent_service_pid"], emails: ["source_key"], isOfInputRow: true },
  [
    ...inputRowKey,
    column("input_hash", "bytes", "indirect", "SHA-256 of the mapped fields.", true),
    column(
      "sent_hash",
      "bytes",
      "indirect",
      "SHA-256 of the record sent (with the PID, without invalid addresses).",
    ),
    column("hash_version", "position", "none", "Version of the hash rule.", true),
    column("parameters_hash", "text", "none", "Hash of mapping and request parameters.", true),
    column("sent_service_pid", "text", "direct", "PID sent with the record (`pid_from`)."),
    column("outcome", "text", "none", "`matched`, `unmatched` or `rejected`.", true),
    column("attempts", "position", "none", "Number of answers and rejections.", true),
    column(
      "call_number",
      "integer",
      "none",
      "Order of the answering call (`api_call`): answers of earlier calls are ignored.",
    ),
    column(
      "answered_at",
      "timestamptz",
      "none",
      "When the answering call was reserved, by the warehouse's clock.",
    ),
    column("due_at", "timestamptz", "none", "When the answer expires; null for never."),
    column("call_id", "uuid", "none", "Call that answered (`api_call`)."),
    column(
      "fingerprint",
      "bytes",
      "indirect",
      "Fingerprint of the input row with the content of `input_hash`; empty if the last selection found no such row, null if unknown.",
    ),
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

/** Call that last answered each address, of any job. */
export const emailState = state(
  "email_state",
  "Call that last answered each address of `email_validation`, of any job: answers of earlier calls are ignored.",
  ["email_address"],
  { emails: ["email_address"] },
  [
    column("email_address", "text", "direct", "Address as sent."),
    column("call_number", "integer", "none", "Order of the answering call (`api_call`).", true),
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

/** Last accepted parameters of each job. */
export const jobParameters = state(
  "job_parameters",
  "Mapping and request parameters of each job's answers, as last accepted.",
  ["job"],
  "nobody",
  [
    column("job", "text", "none", "The job."),
    column("parameters_hash", "text", "none", "Hash of mapping and parameters.", true),
    column("refresh_policy", "text", "none", "Refresh ages from which `due_at` was computed.", true),
    column(
      "resend_before",
      "integer",
      "none",
      "`--resend` replaces answers of calls with a lower number; null before the first.",
    ),
    column("accepted", "text", "none", "`first`, `resend` or `keep`.", true),
    column("accepted_at", "timestamptz", "none", "When they were accepted.", true),
  ],
);
