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
