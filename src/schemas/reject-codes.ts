export interface RejectCode {
  /** `reject.stage`. */
  readonly stage: "input" | "send" | "answer" | "load";
  readonly means: string;
  readonly todo: string;
}

/** This program's codes; records rejected by the service (stage `send`) have the service's code. */
export const rejectCodes = {
  missing_key: {
    stage: "input",
    means: "The row has no key: a key column is null, or in a segment_push `service_pid` is null or blank.",
    todo: "Fill the key column, or exclude such rows with `where` (in a segment_push, with the query). Every run checks the row again.",
  },
  key_too_long: {
    stage: "input",
    means:
      "The row's key (for validate_emails the address) is longer than 2,000 bytes; source_key is truncated.",
    todo: "Choose a shorter key, or fix the address. Every run checks the row again.",
  },
  duplicate_key: {
    stage: "input",
    means: "Another row of the input has the same key; only one of them is used.",
    todo: "Make the key unique, or add a column to `key`. Every run checks the row again.",
  },
  bad_job_id: {
    stage: "input",
    means:
      "The query of a contact_jobs returns an ID that is not a UUID; source_key is its first 100 characters.",
    todo: "Correct the query, or exclude such rows. Every run checks the row again.",
  },
  no_identifier: {
    stage: "input",
    means: "None of the mapped columns has a value.",
    todo: "Fill a mapped column, or map another one. The row is checked again when it changes.",
  },
  not_resolvable: {
    stage: "input",
    means: "The service needs a name (first and last, or full) and at least one e-mail address or phone.",
    todo: "Complete the row, or leave it to `enrich`, which requires less. The row is checked again when it changes.",
  },
  missing_result: {
    stage: "answer",
    means: "The service omitted the record from two responses.",
    todo: "Retry it; if it is omitted again, contact the service with the api_request_id.",
  },
  answer_too_large: {
    stage: "answer",
    means:
      "The result of the record is too large to load (above 32 MB), or two responses with it had more than 1 GB or far more results than records.",
    todo: "Contact the service, or ask for fewer fields (`return_fields`). Then retry it.",
  },
  no_pid: {
    stage: "answer",
    means: "The service reports a match, but no usable PID (`service_pid` is null, blank or not a text).",
    todo: "Contact the service with the api_request_id. Then retry it.",
  },
  unusable_result: {
    stage: "answer",
    means:
      "An item in the results of a contact job isn't an object, or an item in an audience isn't a PID; the message has its position.",
    todo: "Contact the service with the message: the item may have been billed with the unlocked results.",
  },
  unusable_member: {
    stage: "answer",
    means: "Members of a segment have no usable PID; source is the segment, the message has their number.",
    todo: "Contact the service. A later run resolves this once it reads the segment without them.",
  },
  missing_id: {
    stage: "answer",
    means:
      "A death signal has no `obituary_id` or no `service_pid`; `source` is the segment, `source_key` the other ID.",
    todo: "Contact the service. A later run resolves this once the signal is complete or no longer listed.",
  },
  not_loadable: {
    stage: "load",
    means: "The warehouse rejected a value in the response.",
    todo: "Check `details` for the database's error code; retry once the cause is fixed.",
  },
  answer_unloadable: {
    stage: "load",
    means:
      "The process ended twice while it read the result of the record, or the response failed to load three times and was quarantined.",
    todo: "See what `check` reports; retry it after an upgrade.",
  },
  unknown_pid: {
    stage: "send",
    means: "The service rejected a PID that was to be added to a segment; source_key is the PID.",
    todo: "Exclude it from the query, or resolve the person again; retry once the service may accept it.",
  },
} as const satisfies Readonly<Record<string, RejectCode>>;

const refusedByService: RejectCode = {
  stage: "send",
  means: "The service rejected the record; the code is the service's, or `http_` and the HTTP status.",
  todo: "`details` lists the invalid fields. Fix them: the changed row is sent automatically. Or retry once the service has changed.",
};

/** Looks up a code; unknown codes are the service's. */
export function explainReject(code: string): RejectCode {
  const known: Readonly<Record<string, RejectCode>> = rejectCodes;
  return (Object.hasOwn(known, code) ? known[code] : undefined) ?? refusedByService;
}
