import type { RawBuilder } from "kysely";
import type { Session } from "../db/session.ts";
import type { InputSource, LookupType } from "../inputs/input.ts";
import type { RunRef } from "../runs/fence.ts";
import type { EncodedPerson } from "./person-groups.ts";
import type { Cell } from "../../schemas/convert.ts";

export interface LookupAnswer {
  readonly record: LookupRecord;
  readonly outcome: "matched" | "unmatched";
  /** PID of the match. */
  readonly servicePid: string | null;
  /** Cells of the endpoint's answer columns (`resolveFields`, `enrichFields`, `validateFields`), in declared order. */
  readonly cells: readonly Cell[];
  readonly extra: Cell;
  /** The person, for a match of an enrichment. */
  readonly person: EncodedPerson | null;
  readonly apiRequestId: string | null;
  /** Completion time reported by the service. */
  readonly completedAt: string;
  readonly callId: string;
}

export interface LookupReject {
  readonly record: LookupRecord;
  readonly stage: "send" | "answer" | "load";
  readonly code: string;
  readonly message: string;
  /** Contains paths and expected types, never values. */
  readonly details: unknown;
  readonly apiRequestId: string | null;
}

/** Target of a load's rows. */
export interface LoadContext {
  readonly session: Session;
  readonly run: RunRef;
  /** True to keep the content of people that an answer replaces. */
  readonly keepsPeople?: boolean | undefined;
  /** Counts rows of a table that changed. */
  readonly touch: (table: string, rows: number) => void;
}

/** Input rows `job, source, source_key` with the columns of their answer in `lookup_answer`, and `is_missing`. */
export type AnsweredRows = RawBuilder<unknown>;

/** One of `count` disjoint parts of an input, by a hash of the key; `index` is 0-based. */
export interface InputShard {
  readonly index: number;
  readonly count: number;
}

/** Identifies the answers of a call and the job that asked; part of each spooled answer. */
export interface LoadSpec {
  readonly job: string;
  readonly type: LookupType;
  /** Name of the input. */
  readonly source: string;
  /** Endpoint and request parameters that shape an answer: `enrich:0a1b2c3d4e5f`. */
  readonly kind: string;
}

/** Settings for reading the input of a job and for deciding what is due. */
export interface LookupSpec extends LoadSpec {
  readonly input: InputSource;
  /** Hash of everything else that shapes a record: mapped columns, `normalize`, PIDs, and invalid addresses. */
  readonly mapping: string;
  /** Hash of the parameters as version 2 stored it, by which its answers are taken over. */
  readonly legacyParameters: string;
  /** Milliseconds after which a match (or any answer without `refreshUnmatchedAfterMs`) expires; null for never. */
  readonly refreshAfterMs: number | null;
  readonly refreshUnmatchedAfterMs: number | null;
  /** `resolve` job whose PIDs are also sent. Rows that it hasn't answered yet wait. */
  readonly pidFrom: string | null;
  /** True to skip addresses found `invalid`. */
  readonly dropsInvalidEmails: boolean;
  /** True to count the runs that miss a row (`on_missing: erase`). */
  readonly erasesMissing: boolean;
  /** True to send every record again, except rejected ones. */
  readonly resend: boolean;
  /** Confirmation of changed parameters; null without one. */
  readonly acceptParameters: "resend" | "keep" | null;
  /** Maximum records to send; null for all. With a maximum, `order_by` decides which ones. */
  readonly maxRecords: number | null;
  /** Part of the input to read; null for all. */
  readonly shard: InputShard | null;
}

export type Outcome = "matched" | "unmatched" | "rejected";

/** One distinct record to send. */
export interface LookupRecord {
  /** `record_id` of the request: made from the content, so that an answer to another request can't be taken for this one. */
  readonly recordId: string;
  /** The record as JSON text, without `record_id`; for validate_emails the address as a JSON string. */
  readonly json: string;
  /** For validate_emails the address as sent. */
  readonly address?: string;
  /** SHA-256 of the record, for validate_emails the address itself; hex. */
  readonly content: string;
  /** PID sent with the record, for `pid_from`. */
  readonly sentPid: string | null;
  /** True if it counts as sent in an earlier call that may have been billed. Absent for no. */
  readonly mayBeBilled?: boolean;
}
