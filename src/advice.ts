/**
 * Meaning of every code that can end a command, a job or a call, and after the arrow the next step. The codes are stable.
 * Shown in alerts, by `status` and on the page of error codes.
 */
export const adviceByCode = {
  // Configuration and environment (exit code 2).
  usage: "The command line is wrong. → See `person-etl --help`, or `--help` of the command.",
  no_configuration:
    "The configuration file doesn't exist. → Pass it with `--config` or PERSON_ETL_CONFIG, or create one with `person-etl init`.",
  unreadable_configuration:
    "The configuration file can't be read. → Grant read access to the user that runs person-etl.",
  invalid_configuration:
    "The configuration has problems; each is reported with its line. → Fix them, then run `person-etl check`.",
  unreadable_secret:
    "The file of a secret can't be read. → Check its path and permissions. It is read again each time it is needed.",
  unknown_job: "No such job, or the job is disabled. → Use the name of an enabled job in the configuration.",
  no_jobs: "No job is enabled. → Set `enabled: true` for a job, or remove the line.",
  no_schedule:
    '`schedule` was started, but no enabled job has a `schedule`. → Give a job a schedule such as "15 1 * * *", or use `run`.',
  http_unavailable:
    "The pages of `schedule` can't be served at the address in `http`. → Choose another `http.port`. Each scheduler on a machine needs its own.",
  inputs:
    "The table, query, key or a column of an input doesn't match the configuration. → Fix the table or the configuration, then run `person-etl check`.",
  not_set_up:
    "No run has created the tables in the warehouse yet. → Run `person-etl migrate`, or start with `person-etl run`.",
  another_service:
    "The warehouse holds data of another service than the configured one, or a trial. → Use the configuration of this warehouse; if the service only moved, run `person-etl migrate --accept-service HOST`; after a trial, see docs/from-sandbox.md.",
  schemas_mixed:
    "Only some of the three schemas have tables of a warehouse. → Change `schema`, `ops_schema` and `state_schema` together, or none of them.",
  not_a_trial:
    "`drop --trial` was called for tables that no sandbox filled. → docs/from-sandbox.md shows how to remove everything.",
  erasure_pending:
    "`drop --trial` was called while an erasure waits for a run, a destination or received responses. → `person-etl erase` with the same people says what it waits for; the next run finishes it.",
  warehouse_changed:
    "What `drop --trial` would remove was changed while you confirmed it. → Run again, and read the list again.",
  trial_in_use:
    "Views or keys of others depend on the tables of the trial. → Drop the objects that the message names, then run `person-etl drop --trial` again.",
  another_organization:
    "The warehouse holds data of another organization than the API key's. → Use the key of this warehouse; if the organization only got another id, run `person-etl migrate --accept-service HOST`.",
  data_dir_owner:
    "person-etl runs as root, and another user owns `data_dir` or can write to it. → Run as that user, correct owner and mode, or choose another `data_dir`.",
  unreadable_certificate:
    "A certificate file (`service.ca`, or `ssl…` in a Postgres address) can't be read. → Correct the path, or grant this user the right to read the file.",
  verification_off:
    "NODE_TLS_REJECT_UNAUTHORIZED=0 turns off the verification of certificates. → Unset it. For your own certificate authority, set NODE_EXTRA_CA_CERTS to its PEM file.",
  unusable_proxy:
    "HTTPS_PROXY or HTTP_PROXY isn't the address of an HTTP proxy. → Write http://HOST:PORT, or unset it. Proxies of other kinds are not supported.",
  warehouse_too_old:
    "An early version whose tables can't be upgraded created this warehouse. → Choose new names for warehouse.schema, ops_schema and state_schema, or drop the old schemas.",
  warehouse_unsupported:
    "The warehouse is older than Postgres 13, or its encoding isn't UTF8. → Use a newer server, or create a database with ENCODING 'UTF8'.",
  view_in_use:
    "The key of an input has other columns or types than before, and other objects depend on its views `link_INPUT` and `profile_INPUT`. → Drop the listed objects, run again, and create them for the new columns.",
  no_right_to_create:
    "The warehouse role lacks the right to create the tables. → Grant the listed privileges, or have an administrator run the output of `person-etl migrate --print`.",
  no_access:
    "This user has no permission to read or write a path. → Grant the permission, or choose another path.",
  file_exists: "The file already exists. → Move it, or choose another name.",
  api_key_unusable:
    "The API key contains invalid characters. → Copy it again, without spaces or line breaks.",
  erasure_key_mismatch:
    "`privacy.erasure_key` differs from the key that erased people were recorded with. → Restore the former key: with a different one, erased people would be loaded again.",
  // The service.
  key_rejected: "The service rejected the API key. → Update the key that `service.api_key` refers to.",
  forbidden:
    "The API key isn't entitled to this endpoint. → Ask the service for the entitlement, or disable the job.",
  service_unreachable:
    "The service can't be reached. → Check `service.base_url`, HTTPS_PROXY and firewall. The next run resumes.",
  service_failing:
    "The service keeps failing. → Wait, and check the service's status page. The next run resumes.",
  redirected:
    "The service redirects to another address. Redirects are not followed. → Ask the service whether it has moved. A login page or a proxy may also be responding in its place.",
  not_found: "The service doesn't have the endpoint. → Check `service.base_url`.",
  method_not_allowed: "The service doesn't accept this method. → Check `service.base_url`.",
  request_refused:
    "The service rejects the whole request. → Check the mapping and the parameters, and the query of a `segment_push`. The service's text is not shown, because it may quote a record.",
  unexpected_status:
    "The service returned an undocumented status. → Run again. If it persists, contact the service with the request ID from `api_call`.",
  no_answer:
    "A call got no usable response after several attempts. → Run again later. Completed work is kept.",
  unanswered:
    "Some records were not processed and remain due. → The next run sends them again. The message has the last cause.",
  similar_failures:
    "Several batches failed in the same way, which suggests a wrong mapping rather than bad records. → See the reason in the message, and check the mapping of the input.",
  // Limits (exit codes 0 and 3).
  max_records_per_run:
    "The job's own cap was reached. → No action is needed: the next run sends more. Raise the cap to send more per run.",
  max_records: "`--max-records` was reached. → No action is needed: the next run sends more.",
  budget_day:
    "The budget of the day is used up. → No action is needed: the job resumes tomorrow (UTC). Raise `budgets` to send more per day.",
  budget_month: "The budget of the month is used up. → Raise `budgets`, or wait for the next month (UTC).",
  deadline:
    "A search or contact job was still running when the job's `deadline` passed. → No action is needed: the next run resumes.",
  unlock_ceiling:
    "An unlock may be billed for more records than `max_billable` allows. → Raise `max_billable`, or narrow the query.",
  credits: "The plan's credits are used up. → Buy credits. The next run resumes.",
  quota:
    "The service's quota is used up. → Wait until it is renewed, or ask for a larger one. The next run resumes.",
  parameters_changed:
    "Mapping or request parameters differ from those of the stored responses. → Run once with `--accept-parameters keep` (responses stay until they expire) or `resend` (they are paid for again; `plan` shows the price).",
  confirmation:
    "The command needs confirmation. → The message says what it would send, change or remove. To confirm, run the same command with `--yes`.",
  missing_rows:
    "More rows have left an input than `max_missing_ratio` allows, so `on_missing: erase` erased no one. → Check that the input is complete. If it is, raise the ratio for one run.",
  too_many_rejects:
    "More records were rejected than `max_reject_ratio` allows; the others were loaded. → See `person-etl rejects list`. Fix the input or the mapping, or raise the ratio.",
  many_rejects:
    "A job succeeded, but rejected more than 5% of at least 1,000 records. → See `person-etl rejects list`. Fix the input or the mapping. With `max_reject_ratio`, such a job fails.",
  // Dependencies and locks.
  dependency_failed: "A job that this one depends on did not succeed. → Fix that job first.",
  chain_locked:
    "Another process is running one of the jobs, so the whole run was skipped. → Run again after it, or use `run --wait`.",
  locked:
    "Another process is running the job. → See `person-etl status` for the process. Wait, or use `run --wait`.",
  lock_lost:
    "Another process took over the job, because this one sent no heartbeat. → Check whether this machine was suspended or overloaded. Nothing is lost.",
  run_stopped: "Another job ended the whole run. → Fix that job first.",
  interrupted: "A signal stopped the job after a clean commit. → No action is needed: the next run resumes.",
  migration_locked:
    "Another process is migrating, or a session still holds the migration lock. → Wait, or end the session; the message names it.",
  lock_held:
    "Another session has kept a lock for 30 seconds. → Run again, or end the session; the message names it.",
  takeover_blocked:
    "The process that ran the job before is still committing. → End its sessions; the message shows how.",
  writer_suspended:
    "The process was suspended between registering the command and writing. → Nothing was changed. Run the command again.",
  // The warehouse and the disk.
  database_unreachable:
    "The database can't be reached. → Check address, network and server. Paid responses wait on disk; the next run loads them.",
  database_failed:
    "The database server reports a failure of its own: memory, files or damaged data. → See the message and the server's log, fix the cause and run again. Completed work is kept.",
  database_refused: "The database rejects the connection. → Check user, password and database name.",
  warehouse_refused:
    "A table rejects every row of a response, because of a column, constraint or trigger that person-etl didn't create. → Remove the cause and run again. Paid responses wait on disk; the next run loads them.",
  not_loadable:
    "The warehouse rejected a value in a response. → See `person-etl rejects list`, and `api_call` for the call.",
  disk_full: "The disk is full. → Free some space and run again. Committed rows are kept.",
  EMFILE:
    "This process has reached its limit of open files. → Raise its limit (`ulimit -n 64`, `LimitNOFILE=` of systemd) and run again. Completed work is kept.",
  ENFILE: "This machine can't open more files. → Raise `fs.file-max`, and run again. Completed work is kept.",
  spool_full:
    "More than 1 GB of received responses is waiting to be loaded. → Restore the connection to the warehouse. The next run loads them first.",
  spool_failed:
    "Received responses can't be written to `data_dir`. → Check its disk and permissions. Nothing is sent until responses can be stored.",
  spool_damaged:
    "Spooled responses can't be read: their checksum is wrong. → Check the disk, then remove the folder in the message. Its records are sent again.",
  spool_unknown_form: "A newer version wrote the spooled responses. → Load them with that version.",
  // Destinations.
  not_published:
    "A destination has nothing of this warehouse yet. → Run `person-etl publish NAME`; it says what is in the way.",
  publication_refused:
    "The destination's batch number isn't the one last published from this warehouse. → Find out whether either was restored or copied. After a move, run `person-etl migrate --accept-database`; otherwise `publish NAME --full` publishes everything again.",
  publication_over_limit:
    "A publication to BigQuery would bill more than its limit. Nothing of the batch was changed. → Raise `publish.NAME.maximum_bytes_billed`, or run `publish NAME --full`, which bills only the rows; `check` estimates the cost of a publication.",
  tables_busy:
    "A publication can't create its triggers while a long transaction writes to a table. → Publish again after that transaction has ended; `pg_stat_activity` lists it.",
  destination_busy:
    "Another process or other statements kept changing the destination's tables. → Publish again later. Nothing is lost.",
  destination_differs:
    "A table of the destination differs after it was published again. → Run `publish NAME --full`. If it differs again, another program writes to it.",
  destination_quota: "A quota of the destination is used up. → Wait until it is renewed. Nothing is lost.",
  destination_refused:
    "The destination can't be opened or written. → Correct its settings or its permissions.",
  destination_full: "The destination has no space or memory left. → Free some, then publish again.",
  destination_failed: "The destination failed. → Publish again. If it persists, run `publish NAME --full`.",
  unknown_destination:
    "No such destination in the configuration or the warehouse. → Use a name under `publish:`; `person-etl status` lists recorded destinations.",
  // The embedded database and the sandbox.
  embedded_binaries:
    "The binaries of the embedded database don't run on this machine. → Run `npm ci` again, or use your own Postgres.",
  embedded_damaged:
    "The embedded database is damaged. → Restore `data_dir` from a backup, or start with an empty one.",
  embedded_data_gone:
    "The folder of the embedded database is missing. → Restore the folder in the message, or start with an empty database.",
  embedded_missing: "The embedded database isn't available for this platform. → Use your own Postgres.",
  embedded_no_answer: "The embedded database does not respond. → See its log; the message has the path.",
  embedded_owner:
    "The embedded database belongs to another user. → Run as that user, or choose another `data_dir`.",
  embedded_password:
    "The password file of the embedded database is missing or wrong. → Restore it from a backup of `data_dir`.",
  embedded_start_failed: "The embedded database doesn't start. → See its log; the message has the path.",
  embedded_unreachable:
    "As root, the embedded database runs as another user, who can't enter its folder. → Open the folders above it with `chmod o+x`, or choose another `data_dir`.",
  embedded_unwritable: "The embedded database can't write to `data_dir`. → Check permissions and disk.",
  embedded_user: "Postgres doesn't run as root, and no other user can be used. → Run as another user.",
  embedded_version:
    "Another major version of Postgres created `data_dir`. → Dump it with that version and restore the dump into an empty `data_dir`.",
  no_embedded_database:
    "The configured warehouse is not the embedded one. → Use `database` with `warehouse.url: embedded` only.",
  sandbox_failed: "The sandbox didn't start, or ended. → See the message.",
  // Segments.
  no_filters_extracted:
    "The service finds no criteria in the query of a person search. → Describe an audience by role, industry, company, place, age, education or contact channel.",
  unknown_audience:
    "No configured job has such an audience. → Use the name of a search, or JOB/SEARCH; `person-etl audience list` lists them.",
  audience_unfinished: "The audience to unlock is not completed. → Run its job first.",
  search_failed:
    "The service could not complete a search or a contact job. → See its row in audience_search or contact_job; revise the query, or reset the checkpoint to submit it again.",
  preview_only:
    "An audience is a preview, which has no results to unlock. → Remove `unlock` from the search.",
  count_unknown:
    "The service doesn't report the size of a finished search, so the charge of an unlock is unknown. → Run again later. Nothing was unlocked.",
  results_changing:
    "The members of an audience changed while they were read. → Run again; the members are read from the start.",
  results_locked:
    "The service refuses the results of an unlocked contact job. → Run again. If it persists, contact the service.",
  bad_job_id: "The query of a contact job returns IDs that are not UUIDs. → Correct the query.",
  search_gone:
    "The service no longer has a search or contact job. → Reset its checkpoint to make it again, or remove it from the configuration.",
  user_key_required:
    "Asynchronous person search rejects the API key, which has no user. → Create a key of a user in the service's web application and set `service.user_api_key`.",
  segment_exists:
    "A segment with this name already exists. → Set its ID as `segment_id`, or choose another `name`.",
  segment_gone:
    "The service has no segment with this ID. → Correct `segment_id`, or remove the segment from the configuration. The message says whether anything was changed.",
  segment_unknown:
    "The `segment_push` job of a segment has not created the segment yet. → Run that job first.",
  bad_input:
    "A file of an input can't be read as configured. → The message names file and line; correct it, or `table:`, `key` and `fields`.",
  input_changed:
    "A file changed while it was read. → Run again when it is complete; rename complete files into place.",
  input_failed:
    "The files of an input can't be read at the moment. → Run again later; the message has the reason.",
  bad_key:
    "The key given to `explain` isn't a valid value of the input's key column. → Correct it: the message names the column and its type.",
  bad_checkpoint:
    "A checkpoint is invalid. → Fix it with `person-etl checkpoint set JOB`, or start the job again from the beginning with `checkpoint reset JOB`.",
  page_not_advancing:
    "A page of a segment says that more pages follow (`list_continues`), although `total_count` is reached. → Run again; if it persists, contact the service with the request ID from `api_call`. No member was removed.",
  missing_result:
    "Two responses had no result for a record. → See the table `reject`; `rejects retry` sends the record again.",
  // States of jobs in `status`.
  failed:
    "The job's last run failed. → See the message, fix the cause, then `person-etl run JOB`. Completed work is kept.",
  skipped: "The job was skipped because another one failed. → Fix that job first.",
  lock_expired:
    "A process ended without closing its run. → No action is needed: the next run takes over the job and resumes.",
  // Alerts.
  stale:
    "A job has not succeeded for longer than `alerts.stale_after`. → Check with `person-etl status` that the scheduler is up, and why the last runs did not succeed.",
  nearly_used:
    "90% of a budget is used. → `person-etl status` estimates when it will be used up. Raise `budgets` if that is too soon.",
  used_up:
    "A budget is used up. → It is renewed with the next day or month (UTC). Raise `budgets` if that is too late.",
  low_match_rate:
    "A job's match rate fell by more than a fifth. → Check `schema_drift`, and whether mapped columns of the input became empty, moved or changed their format; if not, ask the service.",
  low_coverage:
    "The share of people with a field fell by more than a fifth. → See `schema_drift` for a renamed field and the `return_fields` of the job; if not, ask the service.",
  new_deaths:
    "Segments report deaths of people in your inputs. → See the view `deceased_customer`, newest `first_seen_at` first.",
  many_job_changes:
    "A run changed the jobs of more people than `alerts.job_changes_above`. → See the view `person_job_change` for new companies and titles, newest `changed_at` first.",
  plan_low:
    "The plan will be used up before the end of the month, or less than a tenth of it is left. → See `person-etl status` and `plan`; lower `budgets` or `max_records_per_run`, or extend the plan.",
  plan_used_up:
    "The plan is used up. → More records cost the overage price, or the service refuses them (402). Extend the plan, or wait for its renewal.",
  // Bugs.
  check_failed: "A check failed. → See its line.",
  system: "An operation of the operating system failed. → See the message.",
  internal:
    "An unexpected error occurred. → Run again with `--log-level debug` to see where it happened; docs/operating.md says what else to look at.",
} as const satisfies Readonly<Record<string, `${string} → ${string}`>>;

/** Returns the meaning of a code and the next step; generic ones for an unknown code. */
export function adviceFor(code: string): { readonly means: string; readonly next: string } {
  const known: Readonly<Record<string, string>> = adviceByCode;
  const text = Object.hasOwn(known, code) ? known[code] : null;
  const [means = "", next = ""] = (text ?? OTHERWISE).split(" → ");
  return { means, next };
}

const LIMIT_NAMES: Readonly<Record<string, string>> = {
  max_records: "--max-records",
  budget_day: "the daily budget",
  budget_month: "the monthly budget",
};

/** Names a limit in a sentence: `--max-records`, `the daily budget`. */
export function limitText(code: string): string {
  return LIMIT_NAMES[code] ?? code;
}

const OTHERWISE = "The run ended early. → See `person-etl status` and the log of the run.";
