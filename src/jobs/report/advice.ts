/** What a code means, and what to do about it. */
export interface Advice {
  readonly means: string;
  /** What to do next, as an instruction. */
  readonly next: string;
}

/** Everything that can end a command, a job or a call, by the stable code that tells it; docs/troubleshooting.md is made of it. */
export const adviceByCode = {
  // The configuration, and what stands around it (exit code 2).
  usage: {
    means: "The command line is wrong.",
    next: "See `person-etl --help`, or `--help` of the command.",
  },
  no_configuration: {
    means: "The configuration file isn't there.",
    next: "Name it with `--config` or PERSON_ETL_CONFIG, or write one with `person-etl init`.",
  },
  unreadable_configuration: {
    means: "The configuration file can't be read.",
    next: "Let the user that runs person-etl read the file.",
  },
  invalid_configuration: {
    means: "The configuration has problems; each is told with its line.",
    next: "Mend them all, then run `person-etl check`.",
  },
  not_available_in_this_version: {
    means: "A setting is known, but not built yet.",
    next: "Remove the setting, or upgrade.",
  },
  unreadable_secret: {
    means: "The file of a secret can't be read.",
    next: "Look at its path and its rights; it is read anew each time it is needed.",
  },
  unknown_job: {
    means: "A job was named that can't be run.",
    next: "Use a name of the configuration that is switched on.",
  },
  no_jobs: { means: "No job is switched on.", next: "Set `enabled: true` for a job, or remove the line." },
  no_schedule: {
    means: "`schedule` was started, but no job that is switched on has a `schedule`.",
    next: 'Give a job a schedule such as "15 1 * * *", or use `run`.',
  },
  http_unavailable: {
    means: "The pages of `schedule` can't be served where `http` says.",
    next: "Choose another `http.port`; on a machine with several schedulers each needs its own.",
  },
  inputs: {
    means: "An input's table, query, key or column is not as the configuration says.",
    next: "The problems name each of them; mend the table or the configuration, then `person-etl check`.",
  },
  not_migrated: {
    means: "What the command needs in the warehouse isn't there yet.",
    next: "Run `person-etl migrate`, which makes it; `run` does so by itself.",
  },
  another_service: {
    means: "The warehouse was filled from another service than the configured one.",
    next: "Use the configuration that belongs to it; if the service only moved, `person-etl migrate --accept-service HOST`.",
  },
  warehouse_too_old: {
    means: "Version 1 created the warehouse's tables; they cannot be upgraded.",
    next: "Choose new names for warehouse.schema, ops_schema and state_schema, or drop the old schemas.",
  },
  no_right_to_create: {
    means: "The warehouse's role may not create the tables.",
    next: "Grant what the problems name, or let an administrator run what `person-etl migrate --print` shows.",
  },
  no_access: {
    means: "This user may not read or write a place.",
    next: "Grant the right, or choose another place.",
  },
  file_exists: {
    means: "A file that would be written is there already.",
    next: "Move it away, or choose another name.",
  },
  api_key_unusable: {
    means: "The key has characters that no key has.",
    next: "Copy it again; it is one word.",
  },
  erasure_key_mismatch: {
    means: "`privacy.erasure_key` is not the key that erased people were noted with.",
    next: "Give the former key: with another one, people who were erased would come back.",
  },
  // The service.
  key_rejected: {
    means: "The service rejects the key.",
    next: "Put the present key where `service.api_key` points; nothing was sent with the old one.",
  },
  forbidden: {
    means: "The key may not call this endpoint.",
    next: "Ask the service for the entitlement, or switch the job off.",
  },
  service_unreachable: {
    means: "The service can't be reached.",
    next: "Look at `service.base_url`, proxy and firewall; the next run goes on where this one stopped.",
  },
  service_failing: {
    means: "The service keeps failing.",
    next: "Wait and look at its status page; the next run goes on where this one stopped.",
  },
  redirected: {
    means: "The service redirects elsewhere, which is not followed.",
    next: "Set `service.base_url` to where it is now.",
  },
  not_found: { means: "The service doesn't know the endpoint.", next: "Look at `service.base_url`." },
  method_not_allowed: { means: "The service doesn't take this call.", next: "Look at `service.base_url`." },
  request_refused: {
    means: "The service refuses the request as a whole.",
    next: "The message has the status and the service's code, not its words, which may quote a record; look at mapping and parameters, of a push at its query, too.",
  },
  unexpected_status: {
    means: "The service answered with a status that its interface doesn't know.",
    next: "Run again; if it stays, ask the service with the request id of `api_call`.",
  },
  invalid_answers: {
    means: "The service's answers can't be read.",
    next: "Run again; if it stays, ask the service with the request id of `api_call`.",
  },
  no_answer: { means: "A call got no usable answer.", next: "The records stay due; run again." },
  unanswered: {
    means: "Some records got no answer and stay due.",
    next: "The next run sends them again; the message has the last reason.",
  },
  similar_failures: {
    means: "Several batches failed in the same way: rather a wrong mapping than bad records.",
    next: "Look at the reason in the message and at the mapping of the input.",
  },
  // Limits (exit codes 0 and 3).
  max_records_per_run: {
    means: "The job's own cap was reached.",
    next: "Nothing; the next run sends more. Raise the cap to go faster.",
  },
  max_records: { means: "`--max-records` was reached.", next: "Nothing; the next run sends more." },
  budget_day: {
    means: "The budget of the day is used up.",
    next: "Nothing; it goes on tomorrow (UTC). Raise `budgets` if it should be faster.",
  },
  budget_month: {
    means: "The budget of the month is used up.",
    next: "Raise `budgets`, or wait for the next month (UTC).",
  },
  credits: {
    means: "The service says that the credits are used up.",
    next: "Buy credits; the next run goes on where this one stopped.",
  },
  quota: {
    means: "The service's quota is used up.",
    next: "Wait until it is renewed, or ask for a larger one; the next run goes on.",
  },
  parameters_changed: {
    means: "Mapping or request parameters differ from those the answers were bought with.",
    next: "Run once with `--accept-parameters keep` (answers stay until they expire) or `resend` (they are bought again; `plan` tells the price).",
  },
  confirmation: {
    means:
      "It wants your word first, and nobody could be asked, or said no: unusually many rows are due, more members would be removed than `max_remove_ratio` allows, or a checkpoint, rejects or a person would be changed or removed.",
    next: "The message says what would be done; if it is right, run the same command with `--yes`.",
  },
  missing_rows: {
    means:
      "More rows have left an input than `max_missing_ratio` allows, so `on_missing: erase` erased nobody.",
    next: "See whether the input is complete; if it is, raise the ratio for one run.",
  },
  too_many_rejects: {
    means: "More records were rejected than `max_reject_ratio` allows; the others are loaded.",
    next: "See `person-etl rejects list`; mend the input or the mapping, or set another ratio.",
  },
  many_rejects: {
    means:
      "A job without a `max_reject_ratio` rejected more than 5 % of 1,000 or more records; it succeeded all the same.",
    next: "See `person-etl rejects list`; mend the input or the mapping, or set `max_reject_ratio`: beyond it the job fails.",
  },
  // Jobs that hinder one another.
  dependency_failed: {
    means: "A job that comes first did not succeed.",
    next: "Mend that one; this one follows.",
  },
  dependency_locked: {
    means: "Another process runs a job that comes first.",
    next: "Run again after it, or use `run --wait`.",
  },
  locked: {
    means: "Another process runs the job.",
    next: "`person-etl status` tells who; wait, or use `run --wait`.",
  },
  lock_lost: {
    means: "Another process has taken the job over, because this one gave no sign of life.",
    next: "Look whether this machine was suspended or starved; nothing is lost.",
  },
  run_stopped: { means: "Another job ended the whole run.", next: "Mend that one; this one follows." },
  interrupted: {
    means: "A signal stopped it after a clean commit.",
    next: "Nothing; the next run goes on where it stopped.",
  },
  migration_locked: {
    means: "Another process brings the tables up to date, or a session has kept the lock of one that did.",
    next: "Wait for it, or end the session that the message tells how to find.",
  },
  takeover_blocked: {
    means: "The job's former owner has a commit under way that doesn't end.",
    next: "End its sessions as the message says.",
  },
  // The warehouse and the disk.
  database_unreachable: {
    means: "The database can't be reached.",
    next: "Look at address, network and server; paid answers wait on disk and are loaded by the next run.",
  },
  database_refused: {
    means: "The database refuses the connection.",
    next: "Look at user, password and database name.",
  },
  work_table_lost: {
    means: "The database crashed during the run.",
    next: "Run again; what was answered is kept.",
  },
  not_loadable: {
    means: "The warehouse refused an answer.",
    next: "See `person-etl rejects list`; the call's id finds it in `api_call`.",
  },
  publication_refused: {
    means:
      "The destination doesn't stand at the batch that was last published: it or the warehouse was restored, or shared.",
    next: "Find out which; then `person-etl publish NAME --full`, which publishes everything again.",
  },
  destination_refused: {
    means: "The place of a destination can't be used as the configuration says.",
    next: "Correct what the problems name, then `person-etl check`.",
  },
  destination_full: {
    means: "A destination has no space left.",
    next: "Free some and publish again; everything that waits is kept.",
  },
  destination_failed: {
    means: "A destination refused a statement.",
    next: "Publish again; if it persists, `person-etl publish NAME --full`.",
  },
  destination_busy: {
    means: "A destination can't be compared while another process publishes to it.",
    next: "Try again when the other process has ended.",
  },
  destination_differs: {
    means: "Tables of a destination differ from Postgres even after they were published again.",
    next: "Find out what else writes to it, then `person-etl publish NAME --full`.",
  },
  unknown_destination: {
    means: "A destination was named that the configuration, or the warehouse, doesn't have.",
    next: "Use a name of `publish:`; `status` lists those that are still recorded.",
  },
  disk_full: {
    means: "The disk is full.",
    next: "Free some space and run again; what was committed is kept.",
  },
  spool_full: {
    means: "More answers wait to be loaded than `spool.max_megabytes` allows.",
    next: "Bring the warehouse back; the next run loads them first.",
  },
  spool_failed: {
    means: "Received answers can't be written to `data_dir`.",
    next: "Look at its disk and rights: nothing is sent while answers can't be kept.",
  },
  spool_damaged: {
    means: "Kept answers can't be read: the disk has changed what was written.",
    next: "See whether the disk is sound, then remove the folder that is named; its records are sent again.",
  },
  spool_unknown_form: { means: "Kept answers are of a newer version.", next: "Load them with that version." },
  // The embedded database and the sandbox.
  embedded_binaries: {
    means: "The binaries of the embedded database don't run here.",
    next: "Run `npm ci` again, or use a Postgres of your own.",
  },
  embedded_damaged: {
    means: "The embedded database is damaged.",
    next: "Restore `data_dir` from a backup, or begin anew with an empty one.",
  },
  embedded_data_gone: {
    means: "The embedded database's files were removed while it ran.",
    next: "Restore `data_dir` from a backup.",
  },
  embedded_missing: {
    means: "There is no embedded database for this platform.",
    next: "Use a Postgres of your own.",
  },
  embedded_no_answer: {
    means: "The embedded database doesn't answer.",
    next: "Look at its log, which the message names.",
  },
  embedded_owner: {
    means: "`data_dir` belongs to another user.",
    next: "Run as that user, or choose another folder.",
  },
  embedded_password: {
    means: "The embedded database's password file is gone or wrong.",
    next: "Restore it from a backup of `data_dir`.",
  },
  embedded_start_failed: {
    means: "The embedded database doesn't start.",
    next: "Look at its log, which the message names.",
  },
  embedded_unreachable: {
    means: "The embedded database can't be reached.",
    next: "Look at its log, which the message names.",
  },
  embedded_unwritable: {
    means: "The embedded database can't write to `data_dir`.",
    next: "Look at rights and disk.",
  },
  embedded_user: {
    means: "Postgres refuses to run as root, and no other user can be used.",
    next: "Run as another user.",
  },
  embedded_version: {
    means: "`data_dir` was made by another major version of Postgres.",
    next: "Dump it with that version and load it anew.",
  },
  no_embedded_database: {
    means: "The configured warehouse is not the embedded one.",
    next: "`database` is for `warehouse.url: embedded` only.",
  },
  sandbox_failed: { means: "The sandbox didn't start, or ended.", next: "The message has its own words." },
  // Segments.
  segment_exists: {
    means: "A segment of this name is there already.",
    next: "Give its id as `segment_id`, or choose another `name`.",
  },
  segment_gone: {
    means: "The service knows no segment of this id.",
    next: "Correct `segment_id`, or take the segment out of the configuration; the message says what was done before.",
  },
  segment_unknown: {
    means: "A segment is named by the job that fills it, which has not made it yet.",
    next: "Run that `segment_push` job first.",
  },
  bad_checkpoint: {
    means: "A checkpoint that was given or stored can't be used.",
    next: "The message says why, and what one looks like. Mend it with `person-etl checkpoint set JOB`, or let the job begin anew with `checkpoint reset JOB`.",
  },
  page_not_advancing: {
    means:
      "A page of a segment says that others follow (`list_continues`), though `total_count` leaves none.",
    next: "Run again; if it stays, ask the service with the request id of `api_call`. Nobody was marked as removed.",
  },
  missing_result: {
    means: "An answer left a record out, twice.",
    next: "It stands in `reject`; `rejects retry` asks for it again.",
  },
  // What `status` tells of jobs.
  failed: {
    means: "The job's last run failed.",
    next: "The message says why; mend that, then `person-etl run JOB`. What was done is kept.",
  },
  skipped: {
    means: "The job was not begun, because another one failed.",
    next: "Mend that one; this one follows.",
  },
  lock_expired: {
    means: "A process ended without closing its run.",
    next: "Nothing: the next run takes the job over and goes on.",
  },
  // Alerts that are no job's end.
  stale: {
    means: "A job has not succeeded for longer than `alerts.stale_after`.",
    next: "See `person-etl status`: is the scheduler up, and why did its last runs not succeed?",
  },
  nearly_used: {
    means: "A budget is used up to `alerts.budget_ratio`.",
    next: "See when it will be used up in `person-etl status`; raise `budgets` if that is too early.",
  },
  used_up: {
    means: "A budget is used up.",
    next: "It is renewed with the next day or month (UTC); raise `budgets` if that is too late.",
  },
  // Bugs.
  counters_do_not_add_up: {
    means: "The books of a run don't add up.",
    next: "This is a bug: please report it with the log.",
  },
  check_failed: { means: "A check itself failed.", next: "Its line says why." },
  system: { means: "The operating system refused something.", next: "The message says what." },
  internal: {
    means: "Something went wrong that person-etl doesn't know.",
    next: "Run again with `--log-level debug`; please report it with the log.",
  },
} as const satisfies Readonly<Record<string, Advice>>;

/** What to do about a code; a look at the status where nothing better is known. */
export function adviceFor(code: string): Advice {
  const known: Readonly<Record<string, Advice>> = adviceByCode;
  return (
    (Object.hasOwn(known, code) ? known[code] : undefined) ?? {
      means: "It ended early.",
      next: "See `person-etl status` and the log of the run.",
    }
  );
}
