import type { Config, JobConfig } from "../config/config.ts";
import { LimitReachedError } from "../errors.ts";
import { count, countText } from "../figures.ts";
import type { Counters } from "./job.ts";
import { type BillableEstimate, billableText } from "./lookup/estimate.ts";
import { type CostEstimate, costText } from "./price.ts";
import { stopReason } from "./retry-while-down.ts";
import { type JobServices, type RunRequest, type Shard, shardText, wholeInput } from "./services.ts";
import type { LookupCounts } from "../load/lookups/counts.ts";
import type { PastRun } from "../load/runs/status.ts";

/** Asks the user for confirmation if required; throws if nothing may be sent. */
export async function confirm(
  services: Pick<JobServices, "signal">,
  job: string,
  request: Pick<RunRequest, "yes" | "confirm">,
  decision: SendDecision,
): Promise<void> {
  if (decision.kind === "send") return;
  if (decision.kind === "stop")
    throw new LimitReachedError("parameters_changed", `${job}: ${decision.message}`);
  if (request.yes) return;
  const reason = `${job}: ${decision.reason}`;
  if (!request.confirm) {
    throw new LimitReachedError(
      "confirmation",
      `${reason}. Nothing was sent; run again with --yes to confirm.`,
    );
  }
  const agreed = await request.confirm(`${reason}. Continue?`);
  if (services.signal.aborted) throw stopReason(services.signal);
  if (!agreed)
    throw new LimitReachedError("confirmation", `${reason}. Nothing was sent, because you declined.`);
}

/** Ratio of rejected / tried records to report without `max_reject_ratio`, and the minimum number of records. */
export const UNUSUAL_RATIO = 0.05;
const FEW_RECORDS = 1000;

type RejectCounters = Pick<Counters, "records_sent" | "records_rejected" | "records_rejected_before_sending">;

/** Records that a run tried: those sent and those rejected before sending. */
export function triedRecords(counters: RejectCounters): number {
  return counters.records_sent + counters.records_rejected_before_sending;
}

/**
 * Message about a run that rejected unusually many records; null if it didn't. With `max_reject_ratio`, jobs fail instead.
 */
export function unusualRejects(
  job: Pick<JobConfig, "name">,
  counters: RejectCounters,
  { maxRejectRatio }: Pick<Config, "maxRejectRatio">,
): string | null {
  if (maxRejectRatio !== null) return null;
  const tried = triedRecords(counters);
  const { records_rejected: rejected } = counters;
  if (tried < FEW_RECORDS || rejected <= UNUSUAL_RATIO * tried) return null;
  return `${job.name}: ${count(rejected)} of ${countText(tried, "record")} were rejected, more than ${UNUSUAL_RATIO * 100}%.`;
}

export interface SendCase {
  readonly counts: LookupCounts;
  readonly billable: BillableEstimate;
  /** Null without a price. */
  readonly cost: CostEstimate | null;
  /** Newest first. */
  readonly pastRuns: readonly PastRun[];
  readonly shard: Shard;
  readonly resend: boolean;
  readonly acceptParameters: "resend" | "keep" | null;
}

type SendDecision =
  | { readonly kind: "send" }
  | { readonly kind: "ask"; readonly reason: string }
  /** The user has to decide about rows bought with other parameters. */
  | { readonly kind: "stop"; readonly message: string };

type LastRun = Pick<PastRun, "status" | "records_due" | "records_waiting">;

/**
 * Newest run of the same shard that sent records or succeeded; without one, the shard's part of such a run of the whole input;
 * null if there is none.
 */
export function lastSendingRun({ pastRuns, shard }: Pick<SendCase, "pastRuns" | "shard">): LastRun | null {
  const newestOf = (text: string) =>
    pastRuns.find((run) => run.shard === text && (run.status === "succeeded" || run.records_sent > 0));
  const own = newestOf(shardText(shard));
  const whole = newestOf(shardText(wholeInput));
  if (own !== undefined || whole === undefined) return own ?? null;
  const { status, records_due: due, records_waiting: waiting } = whole;
  return { status, records_due: due / shard.count, records_waiting: waiting / shard.count };
}

/**
 * Decides whether to send due records or to ask the user first.
 * @param config with the shard's part of `confirm_above`
 */
export function decideSending(config: Pick<Config, "confirmAbove">, given: SendCase): SendDecision {
  const { counts, billable } = given;
  const cost = given.cost ? `, ${costText(given.cost)}` : "";
  const size = `${countText(counts.toSend, "record")} to send, ${billableText(billable)} of them billed${cost}`;
  if (counts.parametersChanged > 0 && given.acceptParameters === null) {
    return {
      kind: "stop",
      message:
        `the mapping or the request parameters have changed since ${countText(counts.parametersChanged, "row was", "rows were")} ` +
        `processed; nothing was sent. Pass --accept-parameters resend to send them again and pay for them again ` +
        `(with everything else due: ${size}), or --accept-parameters keep to keep their responses and use ` +
        `the new parameters from now on.`,
    };
  }
  if (counts.toSend === 0) return { kind: "send" };
  if (counts.answeredBefore === 0 && counts.unusableKeys > UNUSUAL_RATIO * counts.read) {
    const rows = `${count(counts.unusableKeys)} of ${countText(counts.read, "row")}`;
    return {
      kind: "ask",
      reason: `${rows} have a null or duplicate key. Correct the \`key\` of the input; as it is: ${size}`,
    };
  }
  if (given.resend) {
    return {
      kind: "ask",
      reason: `--resend sends all records of the job again, except those already processed in this resend: ${size}`,
    };
  }
  if (!isUnusual(config, given)) return { kind: "send" };
  const share = Math.floor((100 * counts.due) / counts.read);
  return {
    kind: "ask",
    reason:
      `more is due than confirm_above allows: ${countText(counts.due, "row")}, ${share}% of the input; ` +
      size,
  };
}

function isUnusual({ confirmAbove }: Pick<Config, "confirmAbove">, given: SendCase): boolean {
  const { counts } = given;
  if (counts.due <= confirmAbove.records || counts.due / counts.read <= confirmAbove.ratio) return false;
  const lastRun = lastSendingRun(given);
  // Without an earlier run of this shard, existing answers show that it isn't the first run.
  if (lastRun === null) return counts.answeredBefore > 0;
  // Rows that it left: due ones if it didn't succeed, and those that waited, such as behind a capped job.
  const { status, records_due: due, records_waiting: waiting } = lastRun;
  const backlog = waiting + (status === "succeeded" ? 0 : due);
  return counts.due > backlog + confirmAbove.records;
}
