import type { Drift } from "../schemas/drift.ts";

/** One distinct record to send. */
export interface LookupItem {
  /** The request's record as JSON text, without `record_id`; for e-mail validation the address as a JSON string. */
  readonly json: string;
  /** Unique in the run; holds no personal data. */
  readonly recordId: string;
  /** For e-mail validation the address as sent. */
  readonly address?: string;
  /** It may have been charged for in an earlier run that got no answer. Absent for no. */
  readonly mayBeBilled?: boolean;
}

/** One HTTP attempt, as the ledger keeps it. */
export interface Attempt {
  /** UUID, a new one for each attempt. */
  readonly callId: string;
  /** Method and path (`POST /v2/enrich`). */
  readonly endpoint: string;
  readonly apiRequestId: string | null;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** When the service completed the call, in UTC with its microseconds; null when it didn't say. */
  readonly requestCompletedAt: string | null;
  readonly milliseconds: number;
  /** Null when no response came. */
  readonly httpStatus: number | null;
  /** How many times these records have been asked for now, this one included; 1 for the first. */
  readonly attempt: number;
  /** The service may have seen it: false when no connection came about. */
  readonly isSent: boolean;
  /** 0 when no connection came about. */
  readonly recordsSent: number;
  /** Results with `is_match` true; null without an answer. */
  readonly recordsMatched: number | null;
  /** As received, that is: compressed. */
  readonly responseBytes: number;
  /** The service may have charged for it, but its answer is not in our hands. */
  readonly possiblyBilled: boolean;
  /** Records that both this call and an earlier one without an answer may have been charged for. */
  readonly possiblyBilledTwice: number;
  /** It was answered, but not for all of its records: the others may have been charged for as well. */
  readonly leavesOut?: boolean;
}

/** Records with their results. */
export interface Answered<T, R> {
  readonly kind: "answered";
  readonly attempt: Attempt;
  readonly items: readonly T[];
  /** What was read of each item's result, in the order of `items`. */
  readonly results: readonly R[];
  readonly apiRequestId: string | null;
  /** When the service completed the call, else when we had its answer: UTC, microseconds kept. */
  readonly answeredAt: string;
  /** How the results differ from what is declared. */
  readonly drift: readonly Drift[];
}

/** Records that could not be processed and won't be asked for again. */
export interface Rejected<T> {
  readonly kind: "rejected";
  readonly items: readonly T[];
  /** `send`: refused by the service; `answer`: left out of its answer twice. */
  readonly stage: "send" | "answer";
  readonly code: string;
  readonly message: string;
  /** Paths and expected types, never values; null when the service named none. */
  readonly details: readonly { readonly path: string; readonly type: string | null }[] | null;
  readonly apiRequestId: string | null;
}

/** Records that stay unanswered and due; the job ends failed. */
export interface SetAside<T> {
  readonly kind: "set_aside";
  readonly items: readonly T[];
  readonly code: string;
  readonly message: string;
}

/** What became of some records. */
export type LookupOutcome<T, R> = Answered<T, R> | Rejected<T> | SetAside<T>;
