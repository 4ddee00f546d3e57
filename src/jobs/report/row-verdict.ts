import type { RowKey } from "../../load/erasure/subjects.ts";
import type { ClassifiedRow, StoredState } from "../../load/lookups/explain-row.ts";
import type { DueReason } from "../../load/lookups/counts.ts";
import type { PastRun } from "../../load/runs/job-status.ts";
import { explainReject } from "../../schemas/reject-codes.ts";
import type { Cap } from "../lookup/caps.ts";
import { countText, timeText } from "../../figures.ts";

/** Decision on a row, with its reason. */
export interface Verdict {
  readonly verdict: "due" | "unchanged" | "duplicate" | "waiting" | "rejected" | "suppressed";
  /** Reason why it is due (also of a duplicate), reject code, or job that it waits for; null for none. */
  readonly reason: string | null;
  readonly explanation: string;
  /** Next step; null for none. */
  readonly advice: string | null;
}

/** State of a job around a row. */
export interface Circumstances {
  /** Records that the next run can send; null for no limit. */
  readonly cap: Cap | null;
  readonly lastRun: PastRun | null;
  readonly isUndecided: boolean;
  readonly pidFrom: string | null;
  /** Codes of the row's open rejects in the job, newest first. */
  readonly rejectCodes: readonly string[];
  readonly row: RowKey;
}

/** Explains the class that a run would give to a row. */
export function verdictOn(
  { class: found, prior }: ClassifiedRow,
  state: StoredState | null,
  around: Circumstances,
): Verdict {
  const { pidFrom, row } = around;
  if (found === "suppressed") {
    return verdict("suppressed", null, "names an erased person, and is never sent", null);
  }
  if (found.startsWith("reject:")) {
    const code = found.slice("reject:".length);
    const { means, todo } = explainReject(code);
    return verdict("rejected", code, `rejected before sending. ${means}`, todo);
  }
  if (found === "waiting") {
    const job = pidFrom ?? "another job";
    return verdict("waiting", pidFrom, `${job} hasn't answered its current values yet`, null);
  }
  if (found === "reused") {
    return verdict(
      "duplicate",
      null,
      `its present content has a result already${at(state)}: the next run copies it without a call`,
      null,
    );
  }
  if (found === "unchanged" && prior === "rejected") {
    const [code = null] = around.rejectCodes;
    if (code === null) {
      return verdict(
        "rejected",
        null,
        "unchanged since it was rejected, and its reject was dropped",
        "It is sent again once it changes.",
      );
    }
    const { means, todo } = explainReject(code);
    const retry = `person-etl rejects retry --source-key '${row.source}/${row.sourceKey}'`;
    return verdict(
      "rejected",
      code,
      `unchanged since it was rejected. ${means}`,
      `${todo} To send it again unchanged: ${retry}`,
    );
  }
  if (found === "unchanged") {
    const fresh = state?.due_at ? `fresh until ${timeText(state.due_at)}` : "its answer never expires";
    return verdict("unchanged", null, `unchanged since it was answered${at(state)}; ${fresh}`, null);
  }
  return verdict("due", found, dueText(found, state, pidFrom), null);
}

function verdict(
  name: Verdict["verdict"],
  reason: string | null,
  explanation: string,
  advice: string | null,
): Verdict {
  return { verdict: name, reason, explanation, advice };
}

/** Texts of the reasons of {@link DueReason}. */
const DUE_TEXTS: Readonly<Record<DueReason, (state: StoredState | null, pidFrom: string | null) => string>> =
  {
    never_answered: () => "never answered",
    content_changed: (state) => `its values or the mapping changed since it was answered${at(state)}`,
    retried: () => "a retry of its reject was requested",
    parameters_changed: (state) => `answered${at(state)} with another mapping or other parameters`,
    pid_changed: (_, pidFrom) => `${pidFrom ?? "the resolve job"} found another PID than the one sent`,
    expired: (state) => `its answer expired${state?.due_at ? ` on ${timeText(state.due_at)}` : ""}`,
    resend: () => "a resend is under way",
  };

function dueText(reason: string, state: StoredState | null, pidFrom: string | null): string {
  // The classes that are no reason were excluded before.
  return DUE_TEXTS[reason as DueReason](state, pidFrom);
}

/** Limits that may leave the row for a later run; null for none. */
export function delayText({ cap, lastRun, isUndecided }: Circumstances): string | null {
  const parts = [
    ...(isUndecided
      ? [
          "The mapping or the parameters changed: the next run may ask for --accept-parameters first, as `plan` shows.",
        ]
      : []),
    ...(cap === null
      ? []
      : [
          `The next run sends at most ${countText(cap.records, "record")} (${cap.limitedBy}), so the row may be left for a later one.`,
        ]),
    ...(lastRun?.status === "limited" && lastRun.limitedBy !== null
      ? [
          `The last run stopped at ${lastRun.limitedBy} and left ${countText(lastRun.counters.records_remaining, "row")}.`,
        ]
      : []),
  ];
  return parts.length === 0 ? null : parts.join(" ");
}

function at(state: StoredState | null): string {
  return state?.answered_at ? ` on ${timeText(state.answered_at)}` : "";
}
