import type { LookupCounts, PastRun } from "../../load/lookup.ts";
import { type BillableEstimate, billableText, countText } from "./estimate.ts";
import { precedentOf } from "./precedent.ts";
import type { Shard } from "../shard.ts";

/** What the decision whether to send looks at. */
export interface SendCase {
  readonly counts: LookupCounts;
  readonly billable: BillableEstimate;
  /** Newest first, without the present one. */
  readonly pastRuns: readonly PastRun[];
  /** `pastRuns` was cut off: there are older ones. */
  readonly hasOlderRuns: boolean;
  /** `records` is the shard's part. */
  readonly confirmAbove: { readonly records: number; readonly ratio: number };
  readonly shard: Shard;
  readonly resend: boolean;
  readonly acceptParameters: "resend" | "keep" | null;
}

/** Whether to send what is due. */
export type SendDecision =
  | { readonly kind: "send" }
  /** The user has to agree first. */
  | { readonly kind: "ask"; readonly reason: string }
  /** The user has to say first what to do about rows bought with other parameters. */
  | { readonly kind: "stop"; readonly message: string };

/** Decides whether what is due is sent, or the user is asked first. */
export function decideSending(given: SendCase): SendDecision {
  const { counts, billable } = given;
  if (counts.parametersChanged > 0 && given.acceptParameters === null) {
    return {
      kind: "stop",
      message:
        `the mapping or the request's parameters have changed since ${countText(counts.parametersChanged, "row")} ` +
        `got an answer; nothing was sent. Say --accept-parameters resend to buy the answers again ` +
        `(with all else that is due ${sizeText(counts, billable)}), or --accept-parameters keep to keep them and use ` +
        `the new parameters for what becomes due from now on.`,
    };
  }
  if (counts.toSend === 0) return { kind: "send" };
  if (given.resend) {
    return {
      kind: "ask",
      reason: `--resend sends every record of the job again: ${sizeText(counts, billable)}`,
    };
  }
  if (!isUnusual(given)) return { kind: "send" };
  const share = Math.floor((100 * counts.due) / counts.read);
  return {
    kind: "ask",
    reason:
      `more is due than confirm_above allows, ${countText(counts.due, "row")} or ${share} % of the input: ` +
      sizeText(counts, billable),
  };
}

function sizeText(counts: LookupCounts, billable: BillableEstimate): string {
  return `${countText(counts.toSend, "record")} to send, ${billableText(billable)} of them billed`;
}

function isUnusual({ counts, pastRuns, hasOlderRuns, confirmAbove, shard }: SendCase): boolean {
  if (counts.due <= confirmAbove.records || counts.due / counts.read <= confirmAbove.ratio) return false;
  const precedent = precedentOf(pastRuns, shard);
  // Without a run that got as far as sending this is the first one, unless it lies beyond what was read.
  if (precedent === "none") return hasOlderRuns || counts.answeredBefore > 0;
  if (precedent === "first_pass") return hasOlderRuns;
  return precedent.unfinishedDue === null || counts.due > precedent.unfinishedDue + confirmAbove.records;
}
