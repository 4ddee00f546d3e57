import type { Outcome } from "./lookup-record.ts";
import type { LookupSpec } from "./lookup-spec.ts";
import type { RandomSample, StratumCount } from "./strata.ts";

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
  /** The same by reject code. */
  readonly rejectReasons: Readonly<Record<string, number>>;
  /** Rows without a usable key of their own: all but one of those that share a key. */
  readonly unusableKeys: number;
  /** Due rows beyond the maximum. */
  readonly remaining: number;
  /** Distinct records to send, up to the maximum. */
  readonly toSend: number;
  /** Rows answered under other parameters, in all shards. If not zero, the user has to confirm. */
  readonly parametersChanged: number;
  /** Rows whose last answer was a match. */
  readonly matchedBefore: number;
  readonly answeredBefore: number;
  /** Due records by stratum, for estimates. */
  readonly strata: WorkSize & {
    /** In a plan, distinct records of waiting rows. */
    readonly waiting: number;
    /** Null if first-time records can't be estimated from the answered ones. */
    readonly sample: RandomSample | null;
  };
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

/** Input rows of one class. */
export interface ClassCount {
  readonly class: string;
  readonly prior: Outcome | null;
  readonly changed_parameters: boolean;
  readonly rows: number;
  readonly occurrences: number;
}

/** Rows that reuse a fresh answer, by earlier and new outcome. */
export interface ReusedCount {
  readonly prior: Outcome | null;
  readonly outcome: "matched" | "unmatched";
  readonly rows: number;
}

/** Due records by stratum. */
export interface WorkSize {
  readonly due: readonly StratumCount[];
  /** Those within the cap. */
  readonly toSend: readonly StratumCount[];
}

/** Classes of due rows, in the order of {@link DueReason}. */
const DUE: readonly DueReason[] = [
  "never_answered",
  "content_changed",
  "retried",
  "parameters_changed",
  "pid_changed",
  "expired",
  "resend",
];

/** Classes of rows without a usable key. */
const UNUSABLE_KEYS: readonly string[] = [
  "reject:missing_key",
  "reject:key_too_long",
  "reject:duplicate_key",
];

/** Sums the rows (for validate_emails, the occurrences) of all classes that pass a test. */
export function sumOf(counts: readonly ClassCount[], test: (count: ClassCount) => boolean): number {
  return counts.filter(test).reduce((sum, count) => sum + count.occurrences, 0);
}

/** Prefix of the classes of rows that are rejected before sending. */
const REJECT = "reject:";

function isRejected(count: ClassCount): boolean {
  return count.class.startsWith(REJECT);
}

/** Counts of a selection from its classes, reused answers and records to send. */
export function countsOf(
  { type }: LookupSpec,
  counts: readonly ClassCount[],
  reused: readonly ReusedCount[],
  work: WorkSize,
): Omit<LookupCounts, "parametersChanged" | "strata"> {
  const isDue = (count: ClassCount) => DUE.some((reason) => reason === count.class);
  const dueReasons: Partial<Record<DueReason, number>> = {};
  for (const reason of DUE) {
    const due = sumOf(counts, (count) => count.class === reason);
    if (due > 0) dueReasons[reason] = due;
  }
  const reusedRows = reused.reduce((sum, count) => sum + count.rows, 0);
  const { due, toSend } = work;
  return {
    states: {
      ...statesOf(counts, reused),
      due: totalOf(due, type === "validate_emails" ? "records" : "rows"),
    },
    read: sumOf(counts, () => true),
    unchanged: sumOf(counts, (count) => count.class === "unchanged"),
    due: sumOf(counts, isDue),
    dueReasons,
    duplicate: reusedRows + totalOf(toSend, "rows") - totalOf(toSend, "records"),
    reused: reusedRows,
    waiting: sumOf(counts, (count) => count.class === "waiting"),
    suppressed: sumOf(counts, (count) => count.class === "suppressed"),
    rejectedBeforeSending: sumOf(counts, isRejected),
    rejectReasons: Object.fromEntries(
      [...new Set(counts.filter(isRejected).map((count) => count.class))].map((found) => [
        found.slice(REJECT.length),
        sumOf(counts, (count) => count.class === found),
      ]),
    ),
    unusableKeys: sumOf(counts, (count) => UNUSABLE_KEYS.includes(count.class)),
    remaining: totalOf(due, "rows") - totalOf(toSend, "rows"),
    toSend: totalOf(toSend, "records"),
    matchedBefore: sumOf(counts, (count) => count.prior === "matched"),
    answeredBefore: sumOf(counts, (count) => count.prior === "matched" || count.prior === "unmatched"),
  };
}

function totalOf(strata: readonly StratumCount[], name: "records" | "rows"): number {
  return strata.reduce((sum, stratum) => sum + stratum[name], 0);
}

/** States of the rows after unusable rows are rejected and fresh answers reused. */
function statesOf(
  counts: readonly ClassCount[],
  reused: readonly ReusedCount[],
): Omit<LookupCounts["states"], "due"> {
  const rows = { rows: 0, matched: 0, unmatched: 0, rejected: 0 };
  for (const count of counts) {
    if (count.class === "suppressed") continue;
    rows.rows += count.rows;
    const outcome = isRejected(count) ? "rejected" : count.prior;
    if (outcome) rows[outcome] += count.rows;
  }
  for (const count of reused) {
    if (count.prior) rows[count.prior] -= count.rows;
    rows[count.outcome] += count.rows;
  }
  return rows;
}
