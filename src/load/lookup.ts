import type { Cell } from "../schemas/convert.ts";
import type { Drift } from "../schemas/drift.ts";
import type { FlatList } from "../schemas/flatten.ts";
import type { RunCounter } from "../schemas/ops.ts";
import type { CounterDelta, LedgerEntry, RunRef } from "./ledger/books.ts";
import type { PassCheckpoint } from "./due/pass-cursor.ts";
import type { InputSource } from "./inputs/input-source.ts";

export type { CheckpointMove } from "./feeds/feed-commit.ts";
export type { CounterDelta, LedgerEntry, RunRef } from "./ledger/books.ts";
export type { Identifiers, RowKey, RowsByTable } from "./erasure/people.ts";
export type { InputSource } from "./inputs/input-source.ts";
export type {
  RejectFilter,
  RejectGroup,
  RejectRetry,
  StoredReject,
} from "./runs/reject-filter.ts";

/** Type of a lookup job. */
export type LookupType = "resolve" | "validate_emails" | "enrich";

/** One of `count` disjoint parts of an input; `index` is 0-based. */
export interface InputShard {
  readonly index: number;
  readonly count: number;
  /**
   * Mapped fields that assign rows to shards, in tiers: the first tier with a value decides, so that rows with equal values
   * share a shard. Rows without any value or with an unusable key are assigned by key; addresses by their own hash.
   */
  readonly by: readonly (readonly string[])[];
}

/** Settings for storing the answers of a job. */
export interface LoadSpec {
  readonly job: string;
  readonly type: LookupType;
  readonly input: Pick<InputSource, "name">;
  /** Milliseconds after which a match (or any answer without `refreshUnmatchedAfterMs`) expires; null for never. */
  readonly refreshAfterMs: number | null;
  readonly refreshUnmatchedAfterMs: number | null;
  /** Hash of the mapping and of the request's parameters. */
  readonly parametersHash: string;
}

/** Settings for selecting and building the records of a job. */
export interface LookupSpec extends LoadSpec {
  readonly input: InputSource;
  /** `resolve` job whose PIDs are also sent. Rows that it hasn't answered yet wait. */
  readonly pidFrom: string | null;
  /** True to skip addresses found `invalid`. */
  readonly dropsInvalidEmails: boolean;
  /** True to send every record again, except rejected ones. */
  readonly resend: boolean;
  /** Confirmation of changed parameters; null without one. */
  readonly acceptParameters: "resend" | "keep" | null;
  /** Maximum records to send; null for all. With a maximum, `order_by` decides which ones. */
  readonly maxRecords: number | null;
  /** Part of the input to read; null for all. */
  readonly shard: InputShard | null;
}

/** Reason why rows are due. */
export type DueReason =
  | "never_answered"
  | "content_changed"
  | "retried"
  | "pid_changed"
  | "expired"
  | "parameters_changed"
  | "resend";

/** Counts of a selection, in input rows (validate_emails: occurrences of addresses), except `toSend`. */
export interface LookupCounts {
  readonly read: number;
  readonly unchanged: number;
  readonly due: number;
  readonly dueReasons: Readonly<Partial<Record<DueReason, number>>>;
  readonly duplicate: number;
  /** Due rows that reuse the fresh answer of an equal record; part of `duplicate`. */
  readonly reused: number;
  readonly waiting: number;
  /** Rows skipped because they name an erased person, unless unchanged. */
  readonly suppressed: number;
  readonly rejectedBeforeSending: number;
  /** Due rows beyond the maximum. */
  readonly remaining: number;
  /** Distinct records to send, up to the maximum. */
  readonly toSend: number;
  /** Rows answered under other parameters, in all shards. If not zero, the user has to confirm. */
  readonly parametersChanged: number;
  /** Rows whose last answer was a match. */
  readonly matchedBefore: number;
  readonly answeredBefore: number;
  /** Rows by state after the selection's rejects and reuse; for validate_emails distinct addresses. */
  readonly states: {
    readonly rows: number;
    readonly matched: number;
    readonly unmatched: number;
    readonly rejected: number;
    /** Rows left to send, including those beyond the cap. */
    readonly due: number;
  };
}

/** Outcome of an input row in its state. */
export type Outcome = "matched" | "unmatched" | "rejected";

/** One distinct record to send. Its input rows are in the selection's work table. */
export interface LookupRecord {
  /** Number of the record in the work table; holds no personal data. */
  readonly recordId: string;
  /** The record as JSON text, without `record_id`; for validate_emails the address as a JSON string. */
  readonly json: string;
  /** For validate_emails the address as sent. */
  readonly address?: string;
  /** SHA-256 of the record as sent, hex. */
  readonly sentHash: string;
  /** PID sent with the record, for `pid_from`. */
  readonly sentPid: string | null;
  /** True if an earlier call with it may have been billed. Absent for no. */
  readonly mayBeBilled?: boolean;
}

/** Runs work, with retries. */
export type Retry = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** Names of the two work tables of a selection. */
export interface WorkTables {
  readonly records: string;
  readonly rows: string;
}

/** Records frozen by a selection. */
export interface FrozenRecords {
  readonly source: string;
  readonly type: LookupType;
  readonly tables: WorkTables;
  /** Erasure epoch at the time of the selection. */
  readonly erasureEpoch: number;
}

/** Due records, frozen at the start of the run. */
export interface LookupSelection {
  readonly counts: LookupCounts;
  /** Warehouse rows written by the selection. */
  readonly rowsWritten: number;
  /** Checkpoint to store once everything due is answered; null for a shard. */
  readonly checkpoint: PassCheckpoint | null;
  /** Rows whose cursor is infinite or after the database's clock; the checkpoint ignores them. */
  readonly cursorAhead: number;
  /** Name of the table with the input rows of each record; part of every commit. */
  readonly workTable: string;
  readonly frozen: FrozenRecords;
  /**
   * Pages of distinct records, ordered by content hash.
   * @param within runs the read of each page, with retries.
   */
  records(within?: Retry): AsyncIterable<readonly LookupRecord[]>;
  /** Drops the work tables; keeps rows needed by uncommitted answers. Idempotent. */
  close(): Promise<void>;
}

/** Maximum records to send; null for no limit. */
export interface SendingLimits {
  /** Per UTC day, for all jobs of the type on all machines. */
  readonly perDay: number | null;
  /** Per UTC month, for all jobs of the type on all machines. */
  readonly perMonth: number | null;
  /** Per job and run id, for all shards of any division. */
  readonly perRun: number | null;
  /** Per shard and run id; ignored without shards. */
  readonly perShard: number | null;
}

/** A call to be sent. */
export interface CallReservation {
  /** UUID of the call's row in the ledger. */
  readonly callId: string;
  /** Method and path. */
  readonly endpoint: string;
  /** 1-based attempt of these records. */
  readonly attempt: number;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** `sentHash` of each record, in request order. */
  readonly recordHashes: readonly string[];
  /** Records of a selection; absent for a call without one. */
  readonly selected?: { readonly from: FrozenRecords; readonly recordIds: readonly string[] };
  readonly limits: SendingLimits;
}

/** Result of a reservation. */
export interface CallGrant {
  /** Number of records that may be sent, starting with the first; 0 if nothing was reserved. */
  readonly granted: number;
  /** Exhausted limit; null if records were granted or people were erased. */
  readonly limitedBy: BudgetPeriod | null;
  /** Records of people erased since the selection. Nothing was reserved; reserve the others again. */
  readonly erased?: readonly string[];
}

/** Period of a budget or cap. */
export type BudgetPeriod = "day" | "month" | "run" | "shard";

/** Records counted in the caps of a run. */
export interface RunUse {
  /** All shards of any division. */
  readonly run: number;
  /** This shard; 0 for a run of the whole input. */
  readonly shard: number;
}

/** Records currently counted in a budget. */
export interface BudgetUse {
  readonly budget: LookupType;
  readonly period: "day" | "month";
  /** `2026-11-21` or `2026-11`, UTC. */
  readonly periodKey: string;
  readonly records: number;
}

/** Records of one job on one UTC day, from the ledger and the rejects. */
export interface LedgerDay {
  /** `2026-11-21`. */
  readonly day: string;
  readonly job: string;
  /** Attempts. */
  readonly calls: number;
  /** Records in calls that were answered or may have been billed. Budgets count them. */
  readonly recordsSent: number;
  readonly recordsMatched: number;
  /** Rows rejected, before or after sending. */
  readonly recordsRejected: number;
  /** Sent records whose call may have been billed, or is in flight. */
  readonly possiblyBilled: number;
  /** Sent records that were also in an earlier call that may have been billed. */
  readonly possiblyBilledTwice: number;
}

/** Person in an answer. `undefined` marks fields absent from the answer, which keep their stored value. */
export interface PersonUpdate {
  readonly servicePid: string;
  /** In the order of `personFields`. */
  readonly scalars: readonly (Cell | undefined)[];
  readonly extra: Cell | undefined;
  /** In the order of `personLists`. */
  readonly lists: readonly (FlatList | undefined)[];
}

/**
 * Person in the encoding of the place of record: compact text, so that the parsed answer can be freed before loading.
 */
export interface PreparedPerson {
  readonly pid: string;
}

/** One answered record. */
export interface LookupAnswer {
  readonly record: LookupRecord;
  readonly outcome: "matched" | "unmatched";
  /** PID of the match. */
  readonly servicePid: string | null;
  /** Cells of the endpoint's answer columns (`resolveFields`, `enrichFields`, `validateFields`), in declared order. */
  readonly cells: readonly Cell[];
  readonly extra: Cell;
  /** The person, for a match of an enrichment. */
  readonly person: PreparedPerson | null;
  readonly apiRequestId: string | null;
  /** Completion time reported by the service. */
  readonly answeredAt: string;
  readonly callId: string;
}

/** One record that could not be processed. */
export interface LookupReject {
  readonly record: LookupRecord;
  readonly stage: "send" | "answer" | "load";
  readonly code: string;
  readonly message: string;
  /** Contains paths and expected types, never values. */
  readonly details: unknown;
  readonly apiRequestId: string | null;
}

/** Identity of a process that runs jobs. */
export interface RunnerProcess {
  /** Host name, for messages. */
  readonly host: string;
  readonly pid: number;
  /** Equal for processes that share a PID namespace; null if unknown. */
  readonly machine: string | null;
  /** Distinguishes the process from a later one with the same PID; null if unknown. */
  readonly processStart: string | null;
}

/** Holder of a job, or of a shard of it. */
export interface LockHolder extends RunnerProcess {
  readonly job: string;
  readonly shard: string;
  readonly epoch: number;
  readonly runId: string;
  readonly acquiredAt: string;
  readonly heartbeatAt: string;
  readonly expiresAt: string;
  /** True if expired by the warehouse's clock; another process can take over. */
  readonly isExpired: boolean;
}

/** Request for a job's lock. */
export interface LockRequest extends Omit<RunRef, "epoch"> {
  readonly process: RunnerProcess;
  /** Milliseconds without a heartbeat after which the lock expires. */
  readonly lifeMs: number;
  /** Dead holders, treated as expired. */
  readonly dead: readonly LockHolder[];
}

/** Result of a lock request. */
export type LockReply =
  | {
      readonly kind: "held";
      readonly run: RunRef;
      /** Expired or dead holders, whose runs were marked as failed. */
      readonly tookOver: readonly LockHolder[];
    }
  /** Other holders of the job: the same shard, or a different shard count. */
  | { readonly kind: "refused"; readonly holders: readonly LockHolder[] };

/** Results of a group of calls, committed atomically. */
export interface LookupCommit {
  /** Run that commits, under its lock. */
  readonly run: RunRef;
  /** Run that sent the calls, if another run loads the answers. Rows, ledger and counters belong to it. */
  readonly onBehalfOf?: Pick<RunRef, "runId" | "shard">;
  readonly spec: LoadSpec;
  /** Name of the table with the input rows of each record. */
  readonly workTable: string;
  readonly ledger: readonly LedgerEntry[];
  readonly answers: readonly LookupAnswer[];
  readonly rejects: readonly LookupReject[];
  readonly drift: readonly Drift[];
  readonly counters: CounterDelta;
}

/** Input rows whose outcome changed. */
export interface RowMove {
  readonly prior: Outcome | null;
  readonly outcome: Outcome;
  /** Rows with a state; for validate_emails addresses. */
  readonly rows: number;
  /** Occurrences of their records in the input. */
  readonly occurrences: number;
}

/** Effects of a commit. */
export interface CommitResult {
  readonly rowsWritten: number;
  readonly moves: readonly RowMove[];
  /** IDs of answered records with a value that Postgres rejected; now rejects with code `not_loadable`. */
  readonly notLoadable: readonly string[];
}

/** Run and settings of a commit. */
export type CommitHead = Pick<LookupCommit, "run" | "onBehalfOf" | "spec" | "workTable">;

/** Results of one call. */
export type LookupPart = Omit<LookupCommit, keyof CommitHead>;

/** End of a job. */
export interface RunEnd {
  readonly status: "succeeded" | "failed" | "limited" | "skipped" | "interrupted";
  readonly limitedBy: string | null;
  readonly error: string | null;
  /** Final values, which replace the totals of the commits. */
  readonly counters: Readonly<Record<RunCounter, number>>;
  /** Result tables that are fresh after a success. */
  readonly tables: readonly string[];
}

/** Last run of a job, for `confirm_above` and `status`. */
export interface PastRun {
  readonly runId: string;
  readonly shard: string;
  readonly jobType: string;
  readonly job: string;
  readonly status: string;
  readonly limitedBy: string | null;
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly recordsDue: number;
  readonly counters: Readonly<Record<RunCounter, number>>;
  readonly error: string | null;
}

/** Coverage of an input. */
export interface Coverage {
  readonly source: string;
  readonly inputRows: number;
  readonly answered: number;
  readonly matched: number;
  readonly unmatched: number;
  readonly rejected: number;
  readonly due: number;
}

/** One line of `check`. */
export interface CheckLine {
  /** Subject of the check. */
  readonly subject: string;
  readonly ok: boolean;
  readonly message: string;
  /** Remedy if not ok. */
  readonly hint?: string;
}

/** Status of one job, for `status`. */
export interface JobStatus {
  readonly job: string;
  readonly lastRun: PastRun | null;
  /** Newest run of each shard, for the shard count of the newest run; empty before the first run. */
  readonly lastPass: readonly PastRun[];
  /** Last success; with shards, the oldest of theirs. */
  readonly lastSuccessAt: string | null;
  /** Sum over `shardsCounted` of `shards`, which differ until every shard has finished once. */
  readonly coverage:
    | (Coverage & {
        readonly oldestAnswerAt: string | null;
        readonly shards: number;
        readonly shardsCounted: number;
      })
    | null;
  readonly openRejects: Readonly<Record<string, number>>;
  /** Current holders by shard, including expired ones that were not taken over. */
  readonly holders: readonly LockHolder[];
}

/** Freshness of one table (view `table_freshness`). */
export interface TableFreshness {
  readonly tableName: string;
  readonly lastSuccessAt: string | null;
  readonly lastChangedAt: string | null;
  readonly safeUntil: string | null;
}
