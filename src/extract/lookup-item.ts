/** One distinct record to send. */
export interface LookupItem {
  /** Record as JSON text, without `record_id`; for e-mail validation the address as a JSON string. */
  readonly json: string;
  /** Unique in the run; holds no personal data. */
  readonly recordId: string;
  /** For e-mail validation the address as sent. */
  readonly address?: string;
  /** An earlier run may have paid for it without getting an answer. Absent for no. */
  readonly mayBeBilled?: boolean;
}

/** One HTTP attempt, as the ledger stores it. */
export interface Attempt {
  /** UUID, a new one for each attempt. */
  readonly callId: string;
  /** Method and path (`POST /v2/enrich`). */
  readonly endpoint: string;
  readonly apiRequestId: string | null;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Completion time that the service reported, in UTC with its microseconds; null for none. */
  readonly requestCompletedAt: string | null;
  readonly milliseconds: number;
  /** Null when no response came. */
  readonly httpStatus: number | null;
  /** Number of calls that carried these records, this one included; 1 for the first. */
  readonly attempt: number;
  /** False when no connection was made, so that the service can't have seen it. */
  readonly isSent: boolean;
  /** 0 when no connection was made. */
  readonly recordsSent: number;
  /** Results with `is_match` true; null without an answer. */
  readonly recordsMatched: number | null;
  /** Bytes as received, that is: compressed. */
  readonly responseBytes: number;
  /** The service may have charged for it, but its answer was not received. */
  readonly possiblyBilled: boolean;
  /** Records that both this call and an earlier one without an answer may have been charged for. */
  readonly possiblyBilledTwice: number;
  /** The answer lacks some of its records, which may have been charged for as well. */
  readonly leavesOut?: boolean;
}

/** Records that could not be processed and won't be sent again. */
export interface Rejected<T> {
  readonly items: readonly T[];
  /** `send`: refused by the service; `answer`: missing in two answers. */
  readonly stage: "send" | "answer";
  readonly code: string;
  readonly message: string;
  /** Paths and expected types, never values; null when the service named none. */
  readonly details: readonly { readonly path: string; readonly type: string | null }[] | null;
  readonly apiRequestId: string | null;
}

/** Records that stay unanswered and due; the job ends failed. */
export interface SetAside<T> {
  readonly items: readonly T[];
  readonly code: string;
  readonly message: string;
}
