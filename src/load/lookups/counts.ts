import type { LookupSpec } from "./lookup.ts";

export type DueReason =
  | "never_answered"
  | "content_changed"
  | "retried"
  | "pid_changed"
  | "expired"
  | "parameters_changed"
  | "resend";

/** Reasons in the order of reports. */
const DUE: readonly DueReason[] = [
  "never_answered",
  "content_changed",
  "retried",
  "parameters_changed",
  "pid_changed",
  "expired",
  "resend",
];

/** Distinct records, by what is known of their match. */
export interface DueGroups {
  /** Answered before, by outcome. */
  readonly sentAgain: { readonly matched: number; readonly unmatched: number };
  /** Never answered, with a PID of `pid_from`. */
  readonly withPid: number;
  readonly others: number;
}

export interface GroupAnswers {
  readonly answered: number;
  readonly matched: number;
}

/** Answers of the last 90 days to the same requests. */
export interface MatchHistory {
  readonly withPid: GroupAnswers;
  readonly others: GroupAnswers;
}

/** Counts of a reading, in input rows (validate_emails: addresses as they occur), except `toSend`. */
export interface LookupCounts {
  readonly read: number;
  /** True if no row differs from the last reading. */
  readonly isQuiet: boolean;
  readonly unchanged: number;
  readonly due: number;
  readonly dueReasons: Readonly<Partial<Record<DueReason, number>>>;
  /** Rows that another record stands for: equal ones, those answered before, and those that another run is sending. */
  readonly duplicate: number;
  /** The part of `duplicate` that no call of this run answers. */
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
  /** Input rows behind them. */
  readonly rowsToSend: number;
  /** Answered rows that changed parameters or a changed mapping would buy again. If not zero, the user has to confirm. */
  readonly parametersChanged: number;
  /** Rows with an answer. */
  readonly answeredBefore: number;
  readonly groups: {
    /** Due records, those that another run sends left out. */
    readonly due: DueGroups;
    /** Those within the maximum. */
    readonly toSend: DueGroups;
  };
  /** In a plan, distinct records of waiting rows. */
  readonly waitingRecords: number;
  readonly history: MatchHistory;
}

export interface ClassCount {
  /** `unchanged`, `reused`, `waiting`, `suppressed`, `reject:CODE`, or the reason why it is due. */
  readonly class: string;
  readonly rows: number;
  /** Rows with an answer before. */
  readonly answered: number;
}

/** Due contents with equal facts. */
export interface DueCount {
  /** `mine`, `other` (claimed by another run, or answered meanwhile), or `later` (beyond the maximum). */
  readonly claim: "mine" | "other" | "later";
  readonly prior: "matched" | "unmatched" | null;
  readonly with_pid: boolean;
  readonly records: number;
  readonly rows: number;
}

/** Codes of rows without a usable key, which have no stored content: every run finds them again and keeps one open reject each. */
export const UNUSABLE_KEYS: readonly string[] = ["missing_key", "key_too_long", "duplicate_key"];

const REJECT = "reject:";
const isReject = (name: string) => name.startsWith(REJECT);

interface Counted
  extends Pick<LookupCounts, "parametersChanged" | "unusableKeys" | "waitingRecords" | "history"> {
  readonly classes: readonly ClassCount[];
  readonly due: readonly DueCount[];
  /** Rows that were not read again. */
  readonly quiet: number;
  /** Rows that left the input. */
  readonly gone: number;
}

export function countsOf(
  { type }: Pick<LookupSpec, "type">,
  { classes, due, quiet, gone, ...counted }: Counted,
): LookupCounts {
  const sum = (test: (name: string) => boolean) =>
    classes.filter((one) => test(one.class)).reduce((total, { rows }) => total + rows, 0);
  const dueReasons: Partial<Record<DueReason, number>> = {};
  for (const reason of DUE) {
    const rows = sum((name) => name === reason);
    if (rows > 0) dueReasons[reason] = rows;
  }
  const totals = (claim: DueCount["claim"], of: "records" | "rows") =>
    due.filter((one) => one.claim === claim).reduce((total, one) => total + one[of], 0);
  const groupsOf = (isMeant: (one: DueCount) => boolean): DueGroups => {
    const records = (test: (one: DueCount) => boolean) =>
      due.filter((one) => isMeant(one) && test(one)).reduce((total, one) => total + one.records, 0);
    return {
      sentAgain: {
        matched: records((one) => one.prior === "matched"),
        unmatched: records((one) => one.prior === "unmatched"),
      },
      withPid: records((one) => one.prior === null && one.with_pid),
      others: records((one) => one.prior === null && !one.with_pid),
    };
  };
  const reused = sum((name) => name === "reused") + totals("other", "rows");
  const [toSend, rowsToSend] = [totals("mine", "records"), totals("mine", "rows")];
  return {
    ...counted,
    read: quiet + sum(() => true),
    isQuiet: gone === 0 && classes.length === 0,
    unchanged: quiet + sum((name) => name === "unchanged"),
    due: sum((name) => DUE.some((reason) => reason === name)),
    dueReasons,
    duplicate: reused + rowsToSend - toSend,
    reused,
    waiting: sum((name) => name === "waiting"),
    suppressed: sum((name) => name === "suppressed"),
    rejectedBeforeSending: sum(isReject),
    rejectReasons: Object.fromEntries(
      classes.filter((one) => isReject(one.class)).map((one) => [one.class.slice(REJECT.length), one.rows]),
    ),
    unusableKeys:
      type === "validate_emails"
        ? counted.unusableKeys
        : sum((name) => UNUSABLE_KEYS.some((code) => name === REJECT + code)),
    remaining: totals("later", "rows"),
    toSend,
    rowsToSend,
    answeredBefore: quiet + classes.reduce((total, { answered }) => total + answered, 0),
    groups: {
      due: groupsOf(({ claim }) => claim !== "other"),
      toSend: groupsOf(({ claim }) => claim === "mine"),
    },
  };
}
