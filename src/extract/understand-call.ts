import type { Clock } from "../clock.ts";
import { instantAt } from "../schemas/convert.ts";
import { type ErrorBody, readErrorBody } from "../schemas/error-body.ts";
import { type PlainBody, readJson } from "./answer-body.ts";
import { callsInDoubt, type Entry } from "./batch.ts";
import type { CallReport } from "./call-report.ts";
import type { FinishedCall } from "./dispatch.ts";
import type { Attempt, LookupItem } from "./lookup-outcome.ts";
import { type CallOutcome, type Decision, isAmbiguous } from "./retry.ts";
import { type Answer, readAnswer, type ReadOptions } from "./read-answer.ts";
import { parseRetryAfter } from "./retry-after.ts";

/** A finished call, its body read. */
export interface UnderstoodCall<T, R> {
  readonly call: FinishedCall<T>;
  readonly outcome: CallOutcome;
  /** Null unless it is an answer. */
  readonly answer: Answer<R> | null;
  readonly error: ErrorBody;
  /** What came back in a word or two, for messages. */
  readonly cause: string;
}

const NO_ERROR: ErrorBody = readErrorBody(undefined);

/** How results are read, whatever the call. */
export type ResultReading<R> = Omit<ReadOptions<R>, "receivedAt">;

/** Reads what came back of a call. */
export async function understandCall<T, R>(
  call: FinishedCall<T>,
  body: PlainBody,
  reading: ResultReading<R>,
  clock: Clock,
): Promise<UnderstoodCall<T, R>> {
  const { reply } = call;
  if (reply.kind === "failure") {
    const outcome = { kind: reply.sent ? "lost" : "not_sent" } as const;
    return { call, outcome, answer: null, error: NO_ERROR, cause: reply.code };
  }
  if (reply.status === 200) {
    const receivedAt = endOf(call);
    const answer = body.kind === "plain" ? await readAnswer(body.bytes, { ...reading, receivedAt }) : body;
    return answer.kind === "answer"
      ? { call, outcome: { kind: "answer" }, answer, error: NO_ERROR, cause: "200" }
      : { call, outcome: { kind: "lost" }, answer: null, error: NO_ERROR, cause: `200 ${answer.reason}` };
  }
  const error = readErrorBody(body.kind === "plain" ? readJson(body.bytes) : undefined);
  const retryAfterMs = parseRetryAfter(reply.retryAfter, clock.now());
  const outcome = { kind: "status", status: reply.status, retryAfterMs } as const;
  const cause = error.code === null ? String(reply.status) : `${reply.status} ${error.code}`;
  return { call, outcome, answer: null, error, cause };
}

/** When the answer was in our hands, by our clock. */
function endOf({ startedAtMs, milliseconds }: FinishedCall<unknown>): string {
  return instantAt(startedAtMs + milliseconds);
}

/** The ledger's entry for a call. */
export function attemptOf(
  endpoint: string,
  { call, outcome, answer, error }: UnderstoodCall<LookupItem, unknown>,
  recordsMatched: number | null,
): Attempt {
  const { reply, batch } = call;
  return {
    callId: call.callId,
    endpoint,
    apiRequestId: answer?.apiRequestId ?? error.apiRequestId,
    startedAt: new Date(call.startedAtMs).toISOString(),
    requestCompletedAt: answer?.requestCompletedAt ?? null,
    milliseconds: call.milliseconds,
    httpStatus: reply.status,
    attempt: call.attempt,
    isSent: outcome.kind !== "not_sent",
    recordsSent: outcome.kind === "not_sent" ? 0 : batch.entries.length,
    recordsMatched,
    responseBytes: reply.kind === "response" ? reply.body.length : 0,
    possiblyBilled: isAmbiguous(outcome),
    possiblyBilledTwice: countPossiblyBilledTwice(batch.entries, outcome),
  };
}

function countPossiblyBilledTwice(entries: readonly Entry<LookupItem>[], outcome: CallOutcome): number {
  // An ambiguous call has counted itself already.
  const own = isAmbiguous(outcome) ? 1 : 0;
  if (own === 0 && outcome.kind !== "answer") return 0;
  return entries.filter((entry) => callsInDoubt(entry) + (entry.item.mayBeBilled ? 1 : 0) > own).length;
}

/** What a call tells the limiter about the service. */
export function reportOf(outcome: CallOutcome, call: FinishedCall<unknown>, decision: Decision): CallReport {
  if (outcome.kind === "answer") return { kind: "answered" };
  if (outcome.kind === "not_sent") {
    return { kind: "not_sent", code: call.reply.kind === "failure" ? call.reply.code : "" };
  }
  if (outcome.kind === "lost") return { kind: "other" };
  if (outcome.status === 429) {
    const afterMs = decision.action === "retry" ? decision.afterMs : 0;
    return { kind: "refused", startedAtMs: call.startedAtMs, afterMs };
  }
  if (outcome.status === 503) return { kind: "unavailable" };
  return { kind: outcome.status >= 400 && outcome.status < 500 ? "declined" : "other" };
}
