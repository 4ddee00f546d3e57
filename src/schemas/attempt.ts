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
  /** Number of records that the answer omits, which may also have been billed. Absent for none. */
  readonly recordsLeftOut?: number;
}
