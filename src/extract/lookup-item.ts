/** Distinct record to send. */
export interface LookupItem {
  /** Record as JSON text, without `record_id`; for e-mail validation, the address as a JSON string. */
  readonly json: string;
  /** Unique in the run; contains no personal data. */
  readonly recordId: string;
  /** For e-mail validation, the address as sent. */
  readonly address?: string;
  /** True if an earlier run may have been billed for it without an answer. Absent for false. */
  readonly mayBeBilled?: boolean;
}

/** HTTP attempt as stored in the ledger. */
export interface Attempt {
  /** UUID, unique per attempt. */
  readonly callId: string;
  /** Method and path (`POST /v2/enrich`). */
  readonly endpoint: string;
  readonly apiRequestId: string | null;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Completion time reported by the service, in UTC with microseconds; null for none. */
  readonly requestCompletedAt: string | null;
  readonly milliseconds: number;
  /** Null without a response. */
  readonly httpStatus: number | null;
  /** Number of calls that contained these records, including this one; 1 for the first. */
  readonly attempt: number;
  /** False if no connection was made, so that the service can't have received it. */
  readonly isSent: boolean;
  /** 0 if no connection was made. */
  readonly recordsSent: number;
  /** Results with `is_match` true; null without an answer. */
  readonly recordsMatched: number | null;
  /** Bytes as received (compressed). */
  readonly responseBytes: number;
  /** True if the service may have billed it, but no answer was received. */
  readonly possiblyBilled: boolean;
  /** Records that may have been billed by both this call and an earlier one without an answer. */
  readonly possiblyBilledTwice: number;
  /** True if the answer omits some of its records, which may also have been billed. */
  readonly leavesOut?: boolean;
}

/** Records that could not be processed and will not be sent again. */
export interface Rejected<T> {
  readonly items: readonly T[];
  /** `send`: rejected by the service; `answer`: missing in two answers. */
  readonly stage: "send" | "answer";
  readonly code: string;
  readonly message: string;
  /** Paths and expected types, never values; null if the service reported none. */
  readonly details: readonly { readonly path: string; readonly type: string | null }[] | null;
  readonly apiRequestId: string | null;
}

/** Records that remain unanswered and due; the job fails. */
export interface SetAside<T> {
  readonly items: readonly T[];
  readonly code: string;
  readonly message: string;
}
