/** Why records are rejected, at which stage, and what to do about it. */
export interface RejectCode {
  /** As in the table `reject`. */
  readonly stage: "input" | "send" | "answer" | "load";
  readonly means: string;
  readonly todo: string;
}

/** Every code of ours; what the service refuses (stage `send`) has the service's own word for it. */
export const rejectCodes = {
  missing_key: {
    stage: "input",
    means: "The row has no key: a key column is null, or in a segment_push `service_pid` is null or blank.",
    todo: "Fill the key column, or leave such rows out with `where` (in a segment_push, with the query). Every run looks at the row again.",
  },
  key_too_long: {
    stage: "input",
    means:
      "The row's key (for validate_emails the address) is longer than 2,000 bytes; source_key is its beginning.",
    todo: "Choose a shorter key, or mend the address. Every run looks at the row again.",
  },
  duplicate_key: {
    stage: "input",
    means: "Another row of the input has the same key; only one of them is used.",
    todo: "Make the key unique, or name a further column in `key`. Every run looks at the row again.",
  },
  no_identifier: {
    stage: "input",
    means: "None of the mapped columns holds a value.",
    todo: "Fill a mapped column, or map another one. The row is looked at again when it changes.",
  },
  not_resolvable: {
    stage: "input",
    means: "The service needs a name (first and last, or full) and at least one e-mail address or phone.",
    todo: "Complete the row, or leave it to `enrich`, which needs less. The row is looked at again when it changes.",
  },
  missing_result: {
    stage: "answer",
    means: "The service left the record out of two answers.",
    todo: "Retry it; if it stays away, ask the service with the api_request_id.",
  },
  missing_id: {
    stage: "answer",
    means:
      "A death signal lacks its `obituary_id` or its `service_pid`; source is the segment, source_key the id that is there.",
    todo: "Ask the service for it. The run that finds it whole, or no longer there, resolves this.",
  },
  not_loadable: {
    stage: "load",
    means: "The warehouse refuses a value of the answer.",
    todo: "Look at `details` for the database's code, or the column and the type that it expects (BigQuery); retry once the cause is gone, such as after an upgrade of the service.",
  },
  unknown_pid: {
    stage: "send",
    means: "The service doesn't know the PID that was to be put into a segment; source_key is the PID.",
    todo: "Leave it out of the query, or resolve the person again; retry when the service may know it by now.",
  },
} as const satisfies Readonly<Record<string, RejectCode>>;

const refusedByService: RejectCode = {
  stage: "send",
  means: "The service refuses the record; the code is its own word for the fault, or `http_` and its status.",
  todo: "`details` names the fields at fault. Mend them and the row is sent by itself; or retry when the service has changed.",
};

/** What a code means; codes that aren't ours are the service's. */
export function explainReject(code: string): RejectCode {
  const known: Readonly<Record<string, RejectCode>> = rejectCodes;
  return (Object.hasOwn(known, code) ? known[code] : undefined) ?? refusedByService;
}
