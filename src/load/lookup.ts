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

/** Which endpoint's answers a lookup job keeps. */
export type LookupType = "resolve" | "validate_emails" | "enrich";

/** One of `count` disjoint parts of an input, which together are the whole; `index` counts from 0. */
export interface InputShard {
  readonly index: number;
  readonly count: number;
  /**
   * Mapped fields that part the rows, in tiers: the first tier in which a row has a value decides, so that rows equal in
   * it meet. Rows without any value, and those whose key can't be used, are parted by key; addresses by themselves.
   */
  readonly by: readonly (readonly string[])[];
}

/** All that decides how the answers of a job are kept. */
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

/** All that decides which records of a job are due, and what they look like when sent. */
export interface LookupSpec extends LoadSpec {
  readonly input: InputSource;
  /** `resolve` job whose PIDs are sent along; rows it hasn't answered yet wait. */
  readonly pidFrom: string | null;
  /** Leave out addresses that were found `invalid`. */
  readonly dropsInvalidEmails: boolean;
  /** Send every record again, rejected ones excepted. */
  readonly resend: boolean;
  /** What the user said to changed parameters; null when nothing was said. */
  readonly acceptParameters: "resend" | "keep" | null;
  /** Most records to send; null for all. Under a cap, `order_by` decides which come first. */
  readonly maxRecords: number | null;
  /** Which rows are looked at; null for all. */
  readonly shard: InputShard | null;
}

/** Why rows are due. */
export type DueReason =
  | "never_answered"
  | "content_changed"
  | "retried"
  | "pid_changed"
  | "expired"
  | "parameters_changed"
  | "resend";

/** What a run would find: all in input rows (validate_emails: addresses as they occur), but `toSend`. */
export interface LookupCounts {
  readonly read: number;
  readonly unchanged: number;
  readonly due: number;
  readonly dueReasons: Readonly<Partial<Record<DueReason, number>>>;
  readonly duplicate: number;
  /** Due rows that take the fresh answer of an equal record, so that nothing is sent for them; part of `duplicate`. */
  readonly reused: number;
  readonly waiting: number;
  /** Rows kept back because they name an erased person, and that would not be unchanged anyway. */
  readonly suppressed: number;
  readonly rejectedBeforeSending: number;
  /** Due rows beyond the cap. */
  readonly remaining: number;
  /** Distinct records to send, after the cap. */
  readonly toSend: number;
  /** Rows bought with other parameters, those of other shards included; not zero means that the user has to decide. */
  readonly parametersChanged: number;
  /** Rows whose last answer was a match, and rows with an answer: the match rate seen so far. */
  readonly matchedBefore: number;
  readonly answeredBefore: number;
  /** Rows by what their state says once the selection has rejected and reused; for validate_emails distinct addresses. */
  readonly states: {
    readonly rows: number;
    readonly matched: number;
    readonly unmatched: number;
    readonly rejected: number;
    /** What is left to send, beyond the cap too. */
    readonly due: number;
  };
}

/** Outcome of an input row, as its state keeps it. */
export type Outcome = "matched" | "unmatched" | "rejected";

/** One distinct record to send. The input rows it stands for are in the selection's work table. */
export interface LookupRecord {
  /** Number of the record in the work table; holds no personal data. */
  readonly recordId: string;
  /** The record as JSON text, without `record_id`; for validate_emails the address as a JSON string. */
  readonly json: string;
  /** For validate_emails the address as it will be sent. */
  readonly address?: string;
  /** SHA-256 of what is sent, hex. */
  readonly sentHash: string;
  /** PID that is sent along, for `pid_from`. */
  readonly sentPid: string | null;
  /** A call that carried it ended, or was left by a crash, without telling whether it was charged. Absent for no. */
  readonly mayBeBilled?: boolean;
}

/** Does work, perhaps again after a failure. */
export type Patience = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** Names of the two work tables of a selection. */
export interface WorkTables {
  readonly records: string;
  readonly rows: string;
}

/** Records as a selection froze them. */
export interface FrozenRecords {
  readonly source: string;
  readonly type: LookupType;
  readonly tables: WorkTables;
  /** Erasures that the selection left out. */
  readonly erasureEpoch: number;
}

/** What is due, frozen at the start of the run. */
export interface LookupSelection {
  readonly counts: LookupCounts;
  /** Warehouse rows that the selection itself wrote. */
  readonly rowsWritten: number;
  /** Checkpoint to store once everything due was answered; null for a shard. */
  readonly checkpoint: PassCheckpoint | null;
  /** Rows whose cursor is infinite or after the database's clock: the checkpoint leaves them out. */
  readonly cursorAhead: number;
  /** Name of the table with the input rows behind each record; part of every commit. */
  readonly workTable: string;
  readonly frozen: FrozenRecords;
  /**
   * Pages of distinct records, ordered by content hash.
   * @param within does the reading of each page, which may be repeated.
   */
  records(within?: Patience): AsyncIterable<readonly LookupRecord[]>;
  /** Drops the work tables; keeps the rows that answers not committed yet need. Idempotent. */
  close(): Promise<void>;
}

/** Most records that may be sent; null for no bound. */
export interface SendingLimits {
  /** In this UTC day, by all jobs of the type, on all machines. */
  readonly perDay: number | null;
  /** In this UTC month, likewise. */
  readonly perMonth: number | null;
  /** By this job in runs of this id, all shards of whatever division together. */
  readonly perRun: number | null;
  /** By this shard in runs of this id; of no effect on a run of the whole input. */
  readonly perShard: number | null;
}

/** A call that is about to be sent. */
export interface CallReservation {
  /** UUID; the ledger has one row for it, from now on. */
  readonly callId: string;
  /** Method and path. */
  readonly endpoint: string;
  /** How many times these records have been asked for now, this one included. */
  readonly attempt: number;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** `sentHash` of each record, in the order in which they are sent. */
  readonly recordHashes: readonly string[];
  /** Records of a selection; absent for a call without one. */
  readonly selected?: { readonly from: FrozenRecords; readonly recordIds: readonly string[] };
  readonly limits: SendingLimits;
}

/** What one reservation got. */
export interface CallGrant {
  /** Records that may be sent, from the first on; 0 for none, and then nothing was noted. */
  readonly granted: number;
  /** The limit that leaves nothing; null when something was granted, or somebody was erased. */
  readonly limitedBy: BudgetPeriod | null;
  /** Records of people erased after the selection: nothing was reserved, the others have to be reserved again. */
  readonly erased?: readonly string[];
}

/** What a budget or cap is counted over. */
export type BudgetPeriod = "day" | "month" | "run" | "shard";

/** Records that count in the caps of a run. */
export interface RunUse {
  /** All shards, of whatever division. */
  readonly run: number;
  /** This shard; 0 for a run of the whole input. */
  readonly shard: number;
}

/** Records that count in a budget at present. */
export interface BudgetUse {
  readonly budget: LookupType;
  readonly period: "day" | "month";
  /** `2026-11-21` or `2026-11`, UTC. */
  readonly periodKey: string;
  readonly records: number;
}

/** What one job sent on one day (UTC), as the ledger and the rejects tell. */
export interface LedgerDay {
  /** `2026-11-21`. */
  readonly day: string;
  readonly job: string;
  /** Attempts. */
  readonly calls: number;
  /** Records in calls that were answered or may have been charged: what counts in budgets. */
  readonly recordsSent: number;
  readonly recordsMatched: number;
  /** Rows rejected, before or after sending. */
  readonly recordsRejected: number;
  /** Of the records sent those whose call didn't tell whether it was charged, or is under way. */
  readonly possiblyBilled: number;
  /** Of the records sent those that an earlier such call carried too. */
  readonly possiblyBilledTwice: number;
}

/** A person as answered: `undefined` marks what the answer does not speak of, which stays as it is stored. */
export interface PersonUpdate {
  readonly servicePid: string;
  /** In the order of `personFields`. */
  readonly scalars: readonly (Cell | undefined)[];
  readonly extra: Cell | undefined;
  /** In the order of `personLists`. */
  readonly lists: readonly (FlatList | undefined)[];
}

/**
 * A person in the warehouse's own form (see {@link Warehouse.preparePerson}): compact text, so that nothing of the parsed
 * answer has to be kept until it is loaded.
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
  /** When the service completed the call: the age of everything in this answer. */
  readonly answeredAt: string;
  readonly callId: string;
}

/** One record that could not be processed. */
export interface LookupReject {
  readonly record: LookupRecord;
  readonly stage: "send" | "answer" | "load";
  readonly code: string;
  readonly message: string;
  /** Paths and expected types, never values. */
  readonly details: unknown;
  readonly apiRequestId: string | null;
}

/** A process that runs jobs, as others can recognize it. */
export interface RunnerProcess {
  /** Name of the machine, for people. */
  readonly host: string;
  readonly pid: number;
  /** The same for all processes that can look for each other by number, and for no others; null where it can't be told. */
  readonly machine: string | null;
  /** Tells the process from a later one of the same number; null where it can't be told. */
  readonly processStart: string | null;
}

/** Who holds a job, or a shard of it. */
export interface LockHolder extends RunnerProcess {
  readonly job: string;
  readonly shard: string;
  readonly epoch: number;
  readonly runId: string;
  readonly acquiredAt: string;
  readonly heartbeatAt: string;
  readonly expiresAt: string;
  /** By the warehouse's clock; whoever wants the job takes it over. */
  readonly isExpired: boolean;
}

/** Who wants to run a job. */
export interface LockRequest extends Omit<RunRef, "epoch"> {
  readonly process: RunnerProcess;
  /** Milliseconds without a heartbeat after which the lock expires. */
  readonly lifeMs: number;
  /** Holders that are known to be dead: they are treated as expired. */
  readonly dead: readonly LockHolder[];
}

/** What came of the wish to run a job. */
export type LockReply =
  | {
      readonly kind: "held";
      readonly run: RunRef;
      /** Holders that had expired or were dead, whose runs are closed now. */
      readonly tookOver: readonly LockHolder[];
    }
  /** Others run the job: the same shard of it, or another division of it into shards. */
  | { readonly kind: "refused"; readonly holders: readonly LockHolder[] };

/** Everything that a group of calls leaves behind: committed together or not at all. */
export interface LookupCommit {
  /** Who commits, under its lock. */
  readonly run: RunRef;
  /** The run that asked, where another one loads its answers: rows, ledger and counters are that run's. */
  readonly onBehalfOf?: Pick<RunRef, "runId" | "shard">;
  readonly spec: LoadSpec;
  /** Name of the table with the input rows behind each record. */
  readonly workTable: string;
  readonly ledger: readonly LedgerEntry[];
  readonly answers: readonly LookupAnswer[];
  readonly rejects: readonly LookupReject[];
  readonly drift: readonly Drift[];
  readonly counters: CounterDelta;
}

/** Input rows that moved from one outcome to another. */
export interface RowMove {
  readonly prior: Outcome | null;
  readonly outcome: Outcome;
  /** Rows with a state of their own; for validate_emails addresses. */
  readonly rows: number;
  /** Times that their records occur in the input. */
  readonly occurrences: number;
}

/** Effects of a commit. */
export interface CommitResult {
  readonly rowsWritten: number;
  readonly moves: readonly RowMove[];
  /** Ids of answered records that the warehouse refused and that were rejected instead (`not_loadable`). */
  readonly notLoadable: readonly string[];
}

/** Who commits, and how the answers are stored. */
export type CommitHead = Pick<LookupCommit, "run" | "onBehalfOf" | "spec" | "workTable">;

/** What one call leaves behind. */
export type LookupPart = Omit<LookupCommit, keyof CommitHead>;

/** How a job ended. */
export interface RunEnd {
  readonly status: "succeeded" | "failed" | "limited" | "skipped" | "interrupted";
  readonly limitedBy: string | null;
  readonly error: string | null;
  /** Final values, written over what the commits added up. */
  readonly counters: Readonly<Record<RunCounter, number>>;
  /** Tables of results that a success makes fresh. */
  readonly tables: readonly string[];
}

/** The last run of a job, for `confirm_above` and `status`. */
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

/** How much of an input has an answer. */
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
  /** What was looked at. */
  readonly subject: string;
  readonly ok: boolean;
  readonly message: string;
  /** What to do when not ok. */
  readonly hint?: string;
}

/** What `status` shows of one job. */
export interface JobStatus {
  readonly job: string;
  readonly lastRun: PastRun | null;
  /** The newest run of each shard, of as many as the newest of all was one of; empty before the first run. */
  readonly lastPass: readonly PastRun[];
  /** Of a job in shards: when the one succeeded that did so longest ago. */
  readonly lastSuccessAt: string | null;
  /** Summed over `shardsCounted` of `shards`: fewer only while no pass of all shards has ended. */
  readonly coverage:
    | (Coverage & {
        readonly oldestAnswerAt: string | null;
        readonly shards: number;
        readonly shardsCounted: number;
      })
    | null;
  readonly openRejects: Readonly<Record<string, number>>;
  /** Who runs it at the moment, by shard; also those whose lock has expired and that nobody has taken over yet. */
  readonly holders: readonly LockHolder[];
}

/** How fresh one table is (view `table_freshness`). */
export interface TableFreshness {
  readonly tableName: string;
  readonly lastSuccessAt: string | null;
  readonly lastChangedAt: string | null;
  readonly safeUntil: string | null;
}
