import { type BillableEstimate, billableText } from "./estimate.ts";
import { count, countText } from "../../figures.ts";
import type { Price } from "../../money.ts";
import { costText, estimateCost } from "../price.ts";
import { UNUSUAL_RATIO } from "./reject-ratio.ts";
import { type Shard, shardText, wholeInput } from "../shard.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";
import type { PastRun } from "../../load/runs/job-status.ts";

/** Facts for the decision whether to send. */
export interface SendCase {
  readonly counts: LookupCounts;
  readonly billable: BillableEstimate;
  /** Price of one billed record; null without one. */
  readonly price: Price | null;
  /** See {@link lastSendingRun}. */
  readonly lastRun: Pick<PastRun, "status" | "recordsDue" | "counters"> | null;
  /** `records` is the shard's part. */
  readonly confirmAbove: { readonly records: number; readonly ratio: number };
  readonly resend: boolean;
  readonly acceptParameters: "resend" | "keep" | null;
}

/** Decision whether to send. */
export type SendDecision =
  | { readonly kind: "send" }
  /** The user has to confirm. */
  | { readonly kind: "ask"; readonly reason: string }
  /** The user has to decide about rows bought with other parameters. */
  | { readonly kind: "stop"; readonly message: string };

/**
 * Newest run of the same shard that sent records or succeeded; without one, the shard's part of such a run of the whole input;
 * null if there is none. @param pastRuns newest first
 */
export function lastSendingRun(pastRuns: readonly PastRun[], shard: Shard): SendCase["lastRun"] {
  const newestOf = (text: string) =>
    pastRuns.find(
      (run) => run.shard === text && (run.status === "succeeded" || run.counters.records_sent > 0),
    );
  const own = newestOf(shardText(shard));
  const whole = newestOf(shardText(wholeInput));
  if (own !== undefined || whole === undefined) return own ?? null;
  const { status, recordsDue, counters } = whole;
  const waiting = counters.records_waiting / shard.count;
  return {
    status,
    recordsDue: recordsDue / shard.count,
    counters: { ...counters, records_waiting: waiting },
  };
}

/** Decides whether to send due records or to ask the user first. */
export function decideSending(given: SendCase): SendDecision {
  const { counts } = given;
  if (counts.parametersChanged > 0 && given.acceptParameters === null) {
    return {
      kind: "stop",
      message:
        `the mapping or the request parameters have changed since ${countText(counts.parametersChanged, "row")} ` +
        `were answered; nothing was sent. Pass --accept-parameters resend to buy these answers again ` +
        `(with everything else due: ${sizeText(given)}), or --accept-parameters keep to keep them and use ` +
        `the new parameters from now on.`,
    };
  }
  if (counts.toSend === 0) return { kind: "send" };
  if (counts.answeredBefore === 0 && counts.unusableKeys > UNUSUAL_RATIO * counts.read) {
    const rows = `${count(counts.unusableKeys)} of ${countText(counts.read, "row")}`;
    return {
      kind: "ask",
      reason: `${rows} have a null or duplicate key. Correct the \`key\` of the input; as it is: ${sizeText(given)}`,
    };
  }
  if (given.resend) {
    return {
      kind: "ask",
      reason: `--resend sends all records of the job again, except those already answered in this resend: ${sizeText(given)}`,
    };
  }
  if (!isUnusual(given)) return { kind: "send" };
  const share = Math.floor((100 * counts.due) / counts.read);
  return {
    kind: "ask",
    reason:
      `more is due than confirm_above allows: ${countText(counts.due, "row")}, ${share} % of the input; ` +
      sizeText(given),
  };
}

function sizeText({ counts, billable, price }: SendCase): string {
  const cost = price ? `, ${costText(estimateCost(billable, price))}` : "";
  return `${countText(counts.toSend, "record")} to send, ${billableText(billable)} of them billed${cost}`;
}

function isUnusual({ counts, lastRun, confirmAbove }: SendCase): boolean {
  if (counts.due <= confirmAbove.records || counts.due / counts.read <= confirmAbove.ratio) return false;
  // Without an earlier run of this shard, existing answers show that it isn't the first run.
  if (lastRun === null) return counts.answeredBefore > 0;
  return counts.due > backlogOf(lastRun) + confirmAbove.records;
}

/** Rows that the last run left: due ones if it didn't succeed, and those that waited, such as behind a capped job. */
function backlogOf({ status, recordsDue, counters }: NonNullable<SendCase["lastRun"]>): number {
  return counters.records_waiting + (status === "succeeded" ? 0 : recordsDue);
}
