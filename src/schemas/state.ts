import { inputRowKey } from "./answer.ts";
import { column, type Table, table } from "./table.ts";

/** What the program knows of each input row: what was sent, what came of it, when it is due again. */
export const lookupState: Table = table("lookup_state", {
  room: "data",
  doc: "State per input row (for validate_emails per address): decides what is due. Kept for unmatched and rejected rows too.",
  key: inputRowKey.map((c) => c.name),
  people: { pids: ["sent_service_pid"], emails: ["source_key"], isOfInputRow: true },
  columns: [
    ...inputRowKey,
    column("input_hash", "bytes", "indirect", "SHA-256 of the mapped fields.", true),
    column(
      "sent_hash",
      "bytes",
      "indirect",
      "SHA-256 of what was sent (PID added, invalid addresses left out).",
    ),
    column("hash_version", "position", "none", "Version of the hash rule.", true),
    column("parameters_hash", "text", "none", "Hash of mapping and request parameters.", true),
    column("sent_service_pid", "text", "direct", "PID that was sent along (`pid_from`)."),
    column("outcome", "text", "none", "`matched`, `unmatched` or `rejected`.", true),
    column("attempts", "position", "none", "How often the row was answered or rejected.", true),
    column("answered_at", "timestamptz", "none", "When the service completed the answering call."),
    column("due_at", "timestamptz", "none", "From when on the answer counts as expired; null for never."),
    column("call_id", "uuid", "none", "The call that answered (`api_call`)."),
  ],
});

/** What is stored of each person, by field group: content hashes and the age of the answer they come from. */
export const personState: Table = table("person_state", {
  room: "data",
  doc: "Per person and field group the hash of what is stored and when it was answered: unchanged groups aren't rewritten, older answers aren't applied.",
  key: ["service_pid"],
  people: { pids: ["service_pid"] },
  columns: [
    column("service_pid", "text", "direct", "PID of the person."),
    column(
      "group_hashes",
      "text",
      "indirect",
      "Content hash of each field group, 16 characters each, in the declared order.",
      true,
    ),
    column(
      "answered_at",
      "timestamptz",
      "none",
      "Every group comes from an answer at least as new as this.",
      true,
    ),
    column(
      "group_answered_at",
      "json",
      "none",
      "Groups that come from a newer answer than `answered_at`: by name, microseconds since the epoch.",
    ),
  ],
});

/** Which records the calls carried of which it isn't known whether they were charged. */
export const callInDoubt: Table = table("call_in_doubt", {
  room: "data",
  doc: "Calls under way, and those that ended (or were left by a crash) without telling whether they were charged: which records they carried.",
  key: ["call_id"],
  // Parts of hashes of whole records, which no value of a person can be looked up in; those of erased rows are cut out.
  people: "nobody",
  columns: [
    column("call_id", "uuid", "none", "The call (`api_call`)."),
    column("job", "text", "none", "The job.", true),
    column(
      "record_hashes",
      "bytes",
      "indirect",
      "First 8 bytes of each record's `sent_hash`, one after the other.",
      true,
    ),
  ],
});
