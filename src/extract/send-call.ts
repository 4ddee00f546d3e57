import type { Clock } from "../clock.ts";
import { crashPoint } from "../crash-point.ts";
import { codeOf } from "../errors.ts";
import type { LookupEndpoint } from "../schemas/answer.ts";
import { type ErrorBody, readErrorBody } from "../schemas/error-body.ts";
import type { Attempt } from "../schemas/ledger.ts";
import { decompress, MAX_ERROR_BYTES } from "./answer-body.ts";
import { type Batch, buildRequest, itemsOf, type LookupItem, possiblyBilledCalls } from "./batches.ts";
import {
  type HttpClient,
  type HttpReply,
  type HttpRequest,
  type HttpResponse,
  OverflowError,
} from "./http-client.ts";
import { parseText } from "./json.ts";
import type { CallReport, Limiter } from "./limits.ts";
import { type CallOutcome, type Decision, isPossiblyBilled, parseRetryAfter } from "./retry.ts";
import { AnotherServiceError } from "./sandbox-mark.ts";

export interface CallFacts {
  /** Method and path. */
  readonly endpoint: string;
  /** UUID. */
  readonly callId: string;
  /** Number of calls that contained these records, including this one. */
  readonly attempt: number;
  readonly startedAtMs: number;
  readonly milliseconds: number;
  /** Per record: number of earlier calls that may have billed it without returning its result. */
  readonly possiblyBilledBefore: readonly number[];
}

export interface EndedCall<T> extends CallFacts {
  readonly batch: Batch<T>;
  readonly items: readonly T[];
  readonly reply: HttpReply;
  /** As received. */
  readonly bodyBytes: number;
  /** Reason to send no more: an OverflowError, an AnotherServiceError, or a key that could not be read, so that the call was not made; null for none. */
  readonly stopError: unknown;
}

interface CallSetting {
  readonly endpoint: LookupEndpoint;
  /** Additional parameters of the request (`return_fields`). */
  readonly parameters: object;
  readonly http: HttpClient;
  readonly limiter: Limiter;
  readonly clock: Clock;
}

/**
 * Sends a batch whose records count this call already. Never rejects: without a key, it ends as not sent.
 * @param room memory and a path for the response
 */
export async function sendCall<T extends LookupItem>(
  { endpoint, parameters, http, limiter, clock }: CallSetting,
  callId: string,
  batch: Batch<T>,
  room: Pick<HttpRequest, "lease" | "overflowPath"> = {},
): Promise<EndedCall<T>> {
  const items = itemsOf(batch.entries);
  let startedAtMs = clock.now();
  let stopError: unknown = null;
  const reply = await limiter.send(endpoint.name, async (): Promise<HttpReply> => {
    startedAtMs = clock.now();
    try {
      crashPoint("before_send");
      return await http.request({ ...buildRequest(endpoint, parameters, items), ...room });
    } catch (error) {
      stopError = error;
      const isAnother = error instanceof AnotherServiceError;
      const sent = isAnother || error instanceof OverflowError;
      const status = isAnother ? error.status : sent ? 200 : null;
      const code = codeOf(error) ?? (sent ? "NOT_WRITTEN" : "NOT_SENT");
      return { kind: "failure", sent, status, receivedBytes: 0, code };
    }
  });
  crashPoint("after_receive");
  return {
    endpoint: endpoint.name,
    callId,
    attempt: attemptsOf(batch),
    startedAtMs,
    milliseconds: Math.max(0, clock.now() - startedAtMs),
    batch,
    items,
    possiblyBilledBefore: batch.entries.map(possiblyBilledCalls),
    reply,
    bodyBytes: reply.kind === "response" ? reply.body.length : reply.receivedBytes,
    stopError,
  };
}

/** Largest number of calls that contained one of a batch's records. */
export function attemptsOf({ entries }: Batch<unknown>): number {
  return Math.max(...entries.map(({ calls }) => calls));
}

export interface UnderstoodReply {
  readonly outcome: CallOutcome;
  readonly error: ErrorBody;
  /** Status and code, for messages. */
  readonly cause: string;
}

/** Body of a reply without one. */
export const NO_ERROR: ErrorBody = readErrorBody(undefined);

/** True for a complete 200 response, which is billed. */
export function isAnswer(reply: HttpReply): reply is HttpResponse {
  return reply.kind === "response" && reply.status === 200;
}

export const answered: UnderstoodReply = { outcome: { kind: "answer" }, error: NO_ERROR, cause: "200" };

export function unusableAnswer(reason: string): UnderstoodReply {
  return { outcome: { kind: "lost" }, error: NO_ERROR, cause: `200 ${reason}` };
}

/** Interprets a reply; an answer is judged by its results, which are read separately. */
export async function understandReply(reply: HttpReply, clock: Clock): Promise<UnderstoodReply> {
  if (reply.kind === "failure") {
    return { outcome: { kind: reply.sent ? "lost" : "not_sent" }, error: NO_ERROR, cause: reply.code };
  }
  if (reply.status === 200) return answered;
  const body = await decompress(reply.body, reply.contentEncoding, MAX_ERROR_BYTES);
  const error = readErrorBody(body.kind === "plain" ? parseText(body.bytes.toString("utf8")) : undefined);
  const retryAfterMs = parseRetryAfter(reply.retryAfter, clock.now());
  return {
    outcome: { kind: "status", status: reply.status, retryAfterMs },
    error,
    cause: error.code === null ? String(reply.status) : `${reply.status} ${error.code}`,
  };
}

export function reportOf(
  outcome: CallOutcome,
  call: { readonly startedAtMs: number; readonly reply: HttpReply },
  decision: Pick<Decision, "action"> & { readonly afterMs?: number },
): CallReport {
  if (outcome.kind === "answer") return { kind: "answered" };
  if (outcome.kind === "not_sent") {
    return { kind: "not_sent", code: call.reply.kind === "failure" ? call.reply.code : "" };
  }
  if (outcome.kind === "lost") return { kind: "lost" };
  if (outcome.status === 429) {
    return { kind: "refused", startedAtMs: call.startedAtMs, afterMs: decision.afterMs ?? 0 };
  }
  if (outcome.status === 503) return { kind: "unavailable" };
  return { kind: outcome.status >= 400 && outcome.status < 500 ? "declined" : "other" };
}

/** Outcome of a call as stored in the ledger; by default, that of a call that was answered with 200 and may have been billed for nothing. */
type AttemptEnd = Partial<
  Omit<Attempt, "callId" | "endpoint" | "attempt" | "startedAt" | "milliseconds" | "possiblyBilledTwice">
> &
  Pick<Attempt, "recordsSent" | "responseBytes">;

export function attemptOf(
  { endpoint, callId, attempt, startedAtMs, milliseconds, possiblyBilledBefore }: CallFacts,
  given: AttemptEnd,
): Attempt {
  const end = {
    apiRequestId: null,
    requestCompletedAt: null,
    httpStatus: 200,
    isSent: true,
    recordsMatched: null,
    possiblyBilled: true,
    errorCode: null,
    errorDetails: null,
    ...given,
  };
  const isCharged = end.possiblyBilled || end.recordsMatched !== null;
  return {
    ...end,
    endpoint,
    callId,
    attempt,
    milliseconds,
    startedAt: new Date(startedAtMs).toISOString(),
    possiblyBilledTwice: isCharged ? possiblyBilledBefore.filter((calls) => calls > 0).length : 0,
  };
}

export function unansweredAttempt(call: EndedCall<unknown>, { outcome, error }: UnderstoodReply): Attempt {
  const isSent = outcome.kind !== "not_sent";
  return attemptOf(call, {
    apiRequestId: error.apiRequestId,
    httpStatus: call.reply.status,
    isSent,
    recordsSent: isSent ? call.items.length : 0,
    responseBytes: call.bodyBytes,
    possiblyBilled: isPossiblyBilled(outcome),
    errorCode: error.code,
    errorDetails: error.figures,
  });
}
