/** Meaning of a code, with the next step. */
interface Advice {
  readonly means: string;
  readonly next: string;
}

/** Advice for every code that can end a command, a job or a call. The codes are stable. */
export const adviceByCode = {
  // Configuration and environment (exit code 2).
  usage: {
    means: "The command line is wrong.",
    next: "See `person-etl --help`, or `--help` of the command.",
  },
  no_configuration: {
    means: "The configuration file doesn't exist.",
    next: "Pass it with `--config` or PERSON_ETL_CONFIG, or create one with `person-etl init`.",
  },
  unreadable_configuration: {
    means: "The configuration file can't be read.",
    next: "Grant read access to the user that runs person-etl.",
  },
  invalid_configuration: {
    means: "The configuration has problems; each is reported with its line.",
    next: "Fix them, then run `person-etl check`.",
  },
  unreadable_secret: {
    means: "The file of a secret can't be read.",
    next: "Check its path and permissions. It is read again each time it is needed.",
  },
  unknown_job: {
    means: "No such job, or the job is disabled.",
    next: "Use the name of an enabled job in the configuration.",
  },
  no_jobs: { means: "No job is enabled.", next: "Set `enabled: true` for a job, or remove the line." },
  no_schedule: {
    means: "`schedule` was started, but no enabled job has a `schedule`.",
    next: 'Give a job a schedule such as "15 1 * * *", or use `run`.',
  },
  http_unavailable: {
    means: "The pages of `schedule` can't be served at the address in `http`.",
    next: "Choose another `http.port`. Each scheduler on a machine needs its own.",
  },
  inputs: {
    means: "The table, query, key or a column of an input doesn't match the configuration.",
    next: "Fix the table or the configuration, then run `person-etl check`.",
  },
  not_set_up: {
    means: "No run has created the tables in the warehouse yet.",
    next: "Run `person-etl migrate`, or start with `person-etl run`.",
  },
  another_service: {
    means: "The warehouse holds data of another service than the configured one.",
    next: "Use the configuration that belongs to this warehouse. If the service only moved, run `person-etl migrate --accept-service HOST`.",
  },
  another_organization: {
    means: "The warehouse holds data of another organization than the API key's.",
    next: "Use the key that belongs to this warehouse. If the organization only got another id, run `person-etl migrate --accept-service HOST`.",
  },
  data_dir_owner: {
    means: "As root, person-etl was given a `data_dir` that another user owns or can write to.",
    next: "Run as that user, correct owner and mode, or choose another `data_dir`.",
  },
  unreadable_certificate: {
    means: "A certificate file, in the address of a Postgres database or in `service.ca`, can't be read.",
    next: "Correct `sslrootcert`, `sslcert`, `sslkey` or `service.ca`, or grant this user the right to read the file.",
  },
  verification_off: {
    means: "NODE_TLS_REJECT_UNAUTHORIZED=0 turns off the verification of certificates.",
    next: "Unset it. For an authority of your own, set NODE_EXTRA_CA_CERTS to its PEM file.",
  },
  unusable_proxy: {
    means: "HTTPS_PROXY or HTTP_PROXY isn't the address of an HTTP proxy.",
    next: "Write http://HOST:PORT, or unset it. Proxies of other kinds are not supported.",
  },
  warehouse_too_old: {
    means: "Version 1 created the warehouse's tables; they cannot be upgraded.",
    next: "Choose new names for warehouse.schema, ops_schema and state_schema, or drop the old schemas.",
  },
  warehouse_unsupported: {
    means: "The warehouse is older than Postgres 13, or its encoding isn't UTF8.",
    next: "Use a newer server, or create a database with ENCODING 'UTF8'.",
  },
  view_in_use: {
    means:
      "The key of an input has other columns or types than before, and other objects depend on its view `link_INPUT`.",
    next: "Drop the listed objects, run again, and create them for the new columns.",
  },
  no_right_to_create: {
    means: "The warehouse role lacks the right to create the tables.",
    next: "Grant the listed privileges, or have an administrator run the output of `person-etl migrate --print`.",
  },
  no_access: {
    means: "This user has no permission to read or write a path.",
    next: "Grant the permission, or choose another path.",
  },
  file_exists: {
    means: "The file already exists.",
    next: "Move it, or choose another name.",
  },
  api_key_unusable: {
    means: "The API key contains invalid characters.",
    next: "Copy it again, without blanks or line breaks.",
  },
  erasure_key_mismatch: {
    means: "`privacy.erasure_key` differs from the key that erased people were recorded with.",
    next: "Restore the former key: with a different one, erased people would be loaded again.",
  },
  // The service.
  key_rejected: {
    means: "The service rejected the API key.",
    next: "Update the key that `service.api_key` refers to.",
  },
  forbidden: {
    means: "The API key isn't entitled to this endpoint.",
    next: "Ask the service for the entitlement, or disable the job.",
  },
  service_unreachable: {
    means: "The service can't be reached.",
    next: "Check `service.base_url`, HTTPS_PROXY and firewall. The next run resumes.",
  },
  service_failing: {
    means: "The service keeps failing.",
    next: "Wait, and check the service's status page. The next run resumes.",
  },
  redirected: {
    means: "The service redirects to another address. Redirects are not followed.",
    next: "Ask the service whether it has moved; only it can say so. A login page or a proxy in between may answer instead.",
  },
  not_found: { means: "The service doesn't have the endpoint.", next: "Check `service.base_url`." },
  method_not_allowed: { means: "The service doesn't accept this method.", next: "Check `service.base_url`." },
  request_refused: {
    means: "The service rejects the whole request.",
    next: "Check the mapping and the parameters, and the query of a `segment_push`. The message has the status and the service's error code, but not its text, which may quote a record.",
  },
  unexpected_status: {
    means: "The service answered with an undocumented status.",
    next: "Run again. If it persists, contact the service with the request ID from `api_call`.",
  },
  no_answer: {
    means: "A call got no usable answer after several attempts.",
    next: "Run again later. Completed work is kept.",
  },
  unanswered: {
    means: "Some records got no answer and remain due.",
    next: "The next run sends them again. The message has the last reason.",
  },
  similar_failures: {
    means: "Several batches failed in the same way, which suggests a wrong mapping rather than bad records.",
    next: "See the reason in the message, and check the mapping of the input.",
  },
  // Limits (exit codes 0 and 3).
  max_records_per_run: {
    means: "The job's own cap was reached.",
    next: "Nothing; the next run sends more. Raise the cap to go faster.",
  },
  max_records: { means: "`--max-records` was reached.", next: "Nothing; the next run sends more." },
  budget_day: {
    means: "The budget of the day is used up.",
    next: "Nothing; the job resumes tomorrow (UTC). Raise `budgets` to go faster.",
  },
  budget_month: {
    means: "The budget of the month is used up.",
    next: "Raise `budgets`, or wait for the next month (UTC).",
  },
  deadline: {
    means: "A search or contact job was still running when the run's `deadline` was over.",
    next: "Nothing; the next run resumes.",
  },
  unlock_ceiling: {
    means: "An unlock may be billed for more records than `max_billable` allows.",
    next: "Raise `max_billable`, or narrow the query.",
  },
  credits: {
    means: "The plan's credits are used up.",
    next: "Buy credits. The next run resumes.",
  },
  quota: {
    means: "The service's quota is used up.",
    next: "Wait until it is renewed, or ask for a larger one. The next run resumes.",
  },
  parameters_changed: {
    means: "Mapping or request parameters differ from those that the answers were bought with.",
    next: "Run once with `--accept-parameters keep` (answers stay until they expire) or `resend` (they are bought again; `plan` shows the price).",
  },
  confirmation: {
    means:
      "The command needs confirmation: unusually many rows are due, more members would be removed than `max_remove_ratio` allows, or a checkpoint, rejects or a person would be changed or removed.",
    next: "Read the message. To confirm, run the same command with `--yes`.",
  },
  missing_rows: {
    means:
      "More rows have left an input than `max_missing_ratio` allows, so `on_missing: erase` erased no one.",
    next: "Check that the input is complete. If it is, raise the ratio for one run.",
  },
  too_many_rejects: {
    means: "More records were rejected than `max_reject_ratio` allows; the others were loaded.",
    next: "See `person-etl rejects list`. Fix the input or the mapping, or raise the ratio.",
  },
  many_rejects: {
    means:
      "A job without a `max_reject_ratio` rejected more than 5 % of at least 1,000 records. It still succeeded.",
    next: "See `person-etl rejects list`. Fix the input or the mapping, or set `max_reject_ratio`, above which the job fails.",
  },
  // Dependencies and locks.
  dependency_failed: {
    means: "A job that this one depends on did not succeed.",
    next: "Fix that job first.",
  },
  chain_locked: {
    means: "Another process is running one of the jobs, so the whole run was skipped.",
    next: "Run again after it, or use `run --wait`.",
  },
  locked: {
    means: "Another process is running the job.",
    next: "See `person-etl status` for the process. Wait, or use `run --wait`.",
  },
  lock_lost: {
    means: "Another process took over the job, because this one sent no heartbeat.",
    next: "Check whether this machine was suspended or overloaded. Nothing is lost.",
  },
  run_stopped: { means: "Another job ended the whole run.", next: "Fix that job first." },
  interrupted: {
    means: "A signal stopped the job after a clean commit.",
    next: "Nothing; the next run resumes.",
  },
  migration_locked: {
    means: "Another process is migrating, or a session still holds the migration lock.",
    next: "Wait, or end the session; the message names it.",
  },
  lock_held: {
    means: "A session has held a lock of the program for 30 seconds.",
    next: "Run again, or end the session; the message names it.",
  },
  takeover_blocked: {
    means: "A commit of the job's former owner is still in progress.",
    next: "End its sessions; the message shows how.",
  },
  writer_suspended: {
    means: "The process was suspended between registering the command and writing.",
    next: "Nothing was changed. Repeat the command.",
  },
  // The warehouse and the disk.
  database_unreachable: {
    means: "The database can't be reached.",
    next: "Check address, network and server. Paid answers wait on disk; the next run loads them.",
  },
  database_refused: {
    means: "The database rejects the connection.",
    next: "Check user, password and database name.",
  },
  warehouse_refused: {
    means:
      "A table refuses every row of an answer: a column, constraint or trigger that isn't the program's.",
    next: "Remove the cause and run again. Paid answers wait on disk; the next run loads them.",
  },
  not_loadable: {
    means: "The warehouse rejected a value of an answer.",
    next: "See `person-etl rejects list`, and `api_call` for the call.",
  },
  disk_full: {
    means: "The disk is full.",
    next: "Free some space and run again. Committed rows are kept.",
  },
  EMFILE: {
    means: "This process may not open more files.",
    next: "Raise its limit (`ulimit -n 64`, `LimitNOFILE=` of systemd) and run again. Completed work is kept.",
  },
  ENFILE: {
    means: "This machine can't open more files.",
    next: "Raise `fs.file-max`, and run again. Completed work is kept.",
  },
  spool_full: {
    means: "More answers wait to be loaded than `spool.max_megabytes` allows.",
    next: "Restore the connection to the warehouse. The next run loads them first.",
  },
  spool_failed: {
    means: "Received answers can't be written to `data_dir`.",
    next: "Check its disk and permissions. Nothing is sent while answers can't be stored.",
  },
  spool_damaged: {
    means: "Spooled answers can't be read: their checksum is wrong.",
    next: "Check the disk, then remove the folder in the message. Its records are sent again.",
  },
  spool_unknown_form: {
    means: "A newer version wrote the spooled answers.",
    next: "Load them with that version.",
  },
  // Destinations.
  publication_refused: {
    means: "The destination's batch number isn't the one last published from this warehouse.",
    next: "Find out whether one of them was restored from a backup or copied; after a move, run `person-etl migrate --accept-database`. `publish NAME --full` publishes everything again.",
  },
  tables_busy: {
    means: "A publication can't create its triggers while a long transaction writes to a table.",
    next: "Publish again after that transaction has ended; `pg_stat_activity` lists it.",
  },
  destination_busy: {
    means: "Another process or other statements kept changing the destination's tables.",
    next: "Publish again later. Nothing is lost.",
  },
  destination_differs: {
    means: "A table of the destination differs after it was published again.",
    next: "Run `publish NAME --full`. If it differs again, another program writes to it.",
  },
  destination_quota: {
    means: "A quota of the destination is used up.",
    next: "Wait until it is renewed. Nothing is lost.",
  },
  destination_refused: {
    means: "The destination can't be opened or written.",
    next: "Correct its settings or its permissions.",
  },
  destination_full: {
    means: "The destination has no space or memory left.",
    next: "Free some, then publish again.",
  },
  destination_failed: {
    means: "The destination failed.",
    next: "Publish again. If it persists, run `publish NAME --full`.",
  },
  unknown_destination: {
    means: "No such destination in the configuration or the warehouse.",
    next: "Use a name under `publish:`; `person-etl status` lists recorded destinations.",
  },
  // The embedded database and the sandbox.
  embedded_binaries: {
    means: "The binaries of the embedded database don't run on this machine.",
    next: "Run `npm ci` again, or use your own Postgres.",
  },
  embedded_damaged: {
    means: "The embedded database is damaged.",
    next: "Restore `data_dir` from a backup, or start with an empty one.",
  },
  embedded_data_gone: {
    means: "The folder of the embedded database is missing.",
    next: "Restore the folder in the message, or start with an empty database.",
  },
  embedded_missing: {
    means: "The embedded database isn't available for this platform.",
    next: "Use your own Postgres.",
  },
  embedded_no_answer: {
    means: "The embedded database does not respond.",
    next: "See its log; the message has the path.",
  },
  embedded_owner: {
    means: "The embedded database belongs to another user.",
    next: "Run as that user, or choose another `data_dir`.",
  },
  embedded_password: {
    means: "The password file of the embedded database is missing or wrong.",
    next: "Restore it from a backup of `data_dir`.",
  },
  embedded_start_failed: {
    means: "The embedded database doesn't start.",
    next: "See its log; the message has the path.",
  },
  embedded_unreachable: {
    means: "As root, the embedded database runs as another user, who can't enter its folder.",
    next: "Open the folders above it with `chmod o+x`, or choose another `data_dir`.",
  },
  embedded_unwritable: {
    means: "The embedded database can't write to `data_dir`.",
    next: "Check permissions and disk.",
  },
  embedded_user: {
    means: "Postgres doesn't run as root, and no other user can be used.",
    next: "Run as another user.",
  },
  embedded_version: {
    means: "Another major version of Postgres created `data_dir`.",
    next: "Dump it with that version and restore the dump into an empty `data_dir`.",
  },
  no_embedded_database: {
    means: "The configured warehouse is not the embedded one.",
    next: "Use `database` with `warehouse.url: embedded` only.",
  },
  sandbox_failed: { means: "The sandbox didn't start, or ended.", next: "See the message." },
  // Segments.
  no_filters_extracted: {
    means: "The service finds no criteria in the query of a person search.",
    next: "Describe an audience by role, industry, company, place, age, education or contact channel.",
  },
  unknown_audience: {
    means: "No configured job has such an audience.",
    next: "Use the name of a search, or JOB/SEARCH; `person-etl audience list` lists them.",
  },
  audience_unfinished: {
    means: "The audience to unlock is not completed.",
    next: "Run its job first.",
  },
  search_failed: {
    means: "The service could not complete a search or a contact job.",
    next: "See its row in audience_search or contact_job; revise the query, or reset the checkpoint to submit it again.",
  },
  preview_only: {
    means: "An audience is a preview, which has no results to unlock.",
    next: "Remove `unlock` from the search.",
  },
  count_unknown: {
    means: "The service doesn't report the size of a finished search, so the charge of an unlock is unknown.",
    next: "Run again later. Nothing was unlocked.",
  },
  results_changing: {
    means: "The members of an audience changed while they were read.",
    next: "Run again; the members are read from the start.",
  },
  results_locked: {
    means: "The service refuses the results of an unlocked contact job.",
    next: "Run again. If it persists, contact the service.",
  },
  bad_job_id: {
    means: "The query of a contact job returns IDs that are not UUIDs.",
    next: "Correct the query.",
  },
  search_gone: {
    means: "The service no longer has a search or contact job.",
    next: "Reset its checkpoint to make it again, or remove it from the configuration.",
  },
  user_key_required: {
    means: "Asynchronous person search rejects the API key, which has no user.",
    next: "Create a key of a user in the service's web application and set `service.user_api_key`.",
  },
  segment_exists: {
    means: "A segment with this name already exists.",
    next: "Set its ID as `segment_id`, or choose another `name`.",
  },
  segment_gone: {
    means: "The service has no segment with this ID.",
    next: "Correct `segment_id`, or remove the segment from the configuration. The message says whether anything was changed.",
  },
  segment_unknown: {
    means: "The `segment_push` job of a segment has not created the segment yet.",
    next: "Run that job first.",
  },
  bad_key: {
    means: "The key given to `explain` is no value of the input's key column.",
    next: "Correct it: the message names the column and its type.",
  },
  bad_checkpoint: {
    means: "A checkpoint is invalid.",
    next: "Fix it with `person-etl checkpoint set JOB`, or start the job again from the beginning with `checkpoint reset JOB`.",
  },
  page_not_advancing: {
    means: "A page of a segment announces further pages (`list_continues`) that `total_count` excludes.",
    next: "Run again. If it persists, contact the service with the request ID from `api_call`. No member was marked as removed.",
  },
  missing_result: {
    means: "Two answers had no result for a record.",
    next: "See the table `reject`; `rejects retry` sends the record again.",
  },
  // States of jobs in `status`.
  failed: {
    means: "The job's last run failed.",
    next: "See the message, fix the cause, then `person-etl run JOB`. Completed work is kept.",
  },
  skipped: {
    means: "The job was skipped because another one failed.",
    next: "Fix that job first.",
  },
  lock_expired: {
    means: "A process ended without closing its run.",
    next: "Nothing; the next run takes over the job and resumes.",
  },
  // Alerts.
  stale: {
    means: "A job has not succeeded for longer than `alerts.stale_after`.",
    next: "Check with `person-etl status` that the scheduler is up, and why the last runs did not succeed.",
  },
  nearly_used: {
    means: "A budget is used up to `alerts.budget_ratio`.",
    next: "`person-etl status` predicts when it is used up. Raise `budgets` if that is too soon.",
  },
  used_up: {
    means: "A budget is used up.",
    next: "It is renewed with the next day or month (UTC). Raise `budgets` if that is too late.",
  },
  // Bugs.
  check_failed: { means: "A check failed.", next: "See its line." },
  system: { means: "An operation of the operating system failed.", next: "See the message." },
  internal: {
    means: "An unexpected error occurred.",
    next: "Run again with `--log-level debug`, and please report it with the log.",
  },
} as const satisfies Readonly<Record<string, Advice>>;

/** Returns the advice for a code; generic advice for an unknown one. */
export function adviceFor(code: string): Advice {
  const known: Readonly<Record<string, Advice>> = adviceByCode;
  return (
    (Object.hasOwn(known, code) ? known[code] : undefined) ?? {
      means: "The run ended early.",
      next: "See `person-etl status` and the log of the run.",
    }
  );
}
