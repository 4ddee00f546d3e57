import { randomUUID } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { StopJobError } from "../errors.ts";
import { crashPoint } from "../crash-point.ts";
import type { Log } from "../log.ts";
import { cleanText } from "../schemas/json-text.ts";
import { instantAt, instantText } from "../schemas/convert.ts";
import type { DriftLog } from "../schemas/drift.ts";
import { type ErrorBody, readErrorBody, readId } from "../schemas/error-body.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import { decompress, MAX_ANSWER_BYTES, MAX_ERROR_BYTES, readJson } from "./answer-body.ts";
import { parseBounded, type Parsed, TooLargeError, withoutMark } from "./bounded-json.ts";
import type { HttpClient, HttpReply } from "./http-client.ts";
import type { Limiter } from "./limits.ts";
import type { Attempt } from "../schemas/attempt.ts";
import { ageOf } from "./read-answer.ts";
import { type CallOutcome, decideFreeRetry, parseRetryAfter } from "./retry.ts";
import { reportOf } from "./send-call.ts";
import {
  callRefused,
  capacityUsedUp,
  jobStopped,
  keyRejected,
  redirected,
  userKeyRejected,
} from "./stop-messages.ts";

/** Call that is not billed. */
export interface FreeCall<T> {
  /** Method and path without parameters, as in the ledger (`GET /v2/segments/members`). */
  readonly endpoint: string;
  readonly method: "GET" | "POST";
  /** Path and query. */
  readonly path: string;
  /** JSON text; null for none. */
  readonly body: string | null;
  /** Records in the body, for the ledger; 0 without a body. */
  readonly recordsSent?: number;
  /** Statuses handled by the caller; all others end the job. */
  readonly expects?: readonly number[];
  /** True if a repetition does the work again: an attempt without an answer is repeated only once. */
  readonly isOnce?: true;
  /** True for endpoints that require the key of a user. */
  readonly asUser?: true;
  /** Parses a body of status 200 or 202; null if it is invalid, which causes a retry. */
  readonly read: (bytes: Buffer) => T | null;
}

/** Result of a free call. */
export type FreeReply<T> =
  | {
      readonly kind: "answer";
      readonly value: T;
      /** Completion time reported by the service if plausible, otherwise from its `Date` header: UTC, microseconds kept. */
      readonly answeredAt: string;
      readonly apiRequestId: string | null;
      /** True if an earlier attempt without an answer may also have been executed. */
      readonly mayBeDone: boolean;
    }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly error: ErrorBody;
      /** Error that ends the job on this status elsewhere. */
      readonly stop: StopJobError;
      /** True if an earlier attempt without an answer may have been executed. */
      readonly mayBeDone: boolean;
    };

/** Services for free calls. */
interface FreeCallOptions {
  readonly http: HttpClient;
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly random: () => number;
  /** Called for every attempt, whatever its outcome. */
  readonly onAttempt: (attempt: Attempt) => void;
}

/** Parses the envelope of a body, without text that no warehouse can store; null if it is not an object. */
export function readEnvelope(bytes: Buffer, drift: DriftLog): JsonObject | null {
  let parsed: Parsed;
  try {
    parsed = parseBounded(withoutMark(bytes));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TooLargeError) return null;
    throw error;
  }
  const value = parsed.hasControlText ? cleanText(parsed.value, "", drift) : parsed.value;
  return isJsonObject(value) ? value : null;
}

/** Result of one attempt. */
interface Tried<T> {
  readonly outcome: CallOutcome;
  readonly reply: HttpReply;
  readonly error: ErrorBody;
  readonly value: T | null;
  readonly apiRequestId: string | null;
  readonly requestCompletedAt: string | null;
  readonly answeredAt: string;
  readonly cause: string;
  readonly startedAtMs: number;
}

/** Bytes searched for envelope fields, which may precede or follow a long list of results. */
const HEAD_BYTES = 4096;
const NO_ERROR = readErrorBody(undefined);

function fieldIn(bytes: Buffer, name: string): string | null {
  const pattern = new RegExp(`"${name}"\\s*:\\s*"([^"\\\\]{1,200})"`, "u");
  const head = bytes.toString("latin1", 0, HEAD_BYTES);
  const tail = bytes.toString("latin1", Math.max(0, bytes.length - HEAD_BYTES));
  return (pattern.exec(head) ?? pattern.exec(tail))?.[1] ?? null;
}

/** Maximum difference of two clocks that agree: a `Date` header has whole seconds, plus network delay. */
const CLOCKS_AGREE_MS = 2000;

/** Local time, corrected by whole seconds if the `Date` header disagrees. */
function byItsClock(receivedMs: number, date: string | null): number {
  const offMs = date === null ? Number.NaN : Date.parse(date) - receivedMs;
  if (Number.isNaN(offMs) || Math.abs(offMs) <= CLOCKS_AGREE_MS) return receivedMs;
  return receivedMs + Math.round(offMs / 1000) * 1000;
}

async function tryOnce<T>(options: FreeCallOptions, call: FreeCall<T>): Promise<Tried<T>> {
  const { http, limiter, clock, signal } = options;
  const { endpoint, method, path, body } = call;
  let startedAtMs = clock.now();
  const reply = await limiter.run(
    endpoint,
    () =>
      limiter.send(endpoint, () => {
        startedAtMs = clock.now();
        crashPoint("before_send");
        return http.request({ method, path, body, ...(call.asUser ? { asUser: true } : {}) });
      }),
    signal,
  );
  crashPoint("after_receive");
  const receivedMs = clock.now();
  const receivedAt = instantAt(receivedMs);
  const none = {
    error: NO_ERROR,
    value: null,
    apiRequestId: null,
    requestCompletedAt: null,
    answeredAt: receivedAt,
    startedAtMs,
    reply,
  };
  if (reply.kind === "failure") {
    return { ...none, outcome: { kind: reply.sent ? "lost" : "not_sent" }, cause: reply.code };
  }
  const isAnswer = reply.status === 200 || reply.status === 202;
  const limit = isAnswer ? MAX_ANSWER_BYTES : MAX_ERROR_BYTES;
  const plain = await decompress(reply.body, reply.contentEncoding, limit);
  // Few free calls run at a time, and the parsed size is bounded by the body's size.
  reply.release();
  if (isAnswer) {
    const value = plain.kind === "plain" ? call.read(plain.bytes) : null;
    if (plain.kind !== "plain" || value === null) {
      return { ...none, outcome: { kind: "lost" }, cause: `${reply.status}, unreadable` };
    }
    const requestCompletedAt = instantText(fieldIn(plain.bytes, "request_completed_at"));
    return {
      ...none,
      outcome: { kind: "answer" },
      value,
      apiRequestId: readId(fieldIn(plain.bytes, "api_request_id")),
      requestCompletedAt,
      answeredAt: ageOf(requestCompletedAt ?? instantAt(byItsClock(receivedMs, reply.date)), receivedAt),
      cause: String(reply.status),
    };
  }
  const error = readErrorBody(plain.kind === "plain" ? readJson(plain.bytes) : undefined);
  const retryAfterMs = parseRetryAfter(reply.retryAfter, clock.now());
  return {
    ...none,
    error,
    apiRequestId: error.apiRequestId,
    outcome: { kind: "status", status: reply.status, retryAfterMs },
    cause: error.code === null ? String(reply.status) : `${reply.status} ${error.code}`,
  };
}

function attemptOf<T>(call: FreeCall<T>, tried: Tried<T>, attempt: number, nowMs: number): Attempt {
  const { reply, startedAtMs, outcome } = tried;
  return {
    callId: randomUUID(),
    endpoint: call.endpoint,
    apiRequestId: tried.apiRequestId,
    startedAt: new Date(startedAtMs).toISOString(),
    requestCompletedAt: tried.requestCompletedAt,
    milliseconds: Math.max(0, nowMs - startedAtMs),
    httpStatus: reply.status,
    attempt,
    isSent: outcome.kind !== "not_sent",
    recordsSent: outcome.kind === "not_sent" ? 0 : (call.recordsSent ?? 0),
    recordsMatched: null,
    responseBytes: reply.kind === "response" ? reply.body.length : 0,
    possiblyBilled: false,
    possiblyBilledTwice: 0,
  };
}

/** True if the service may have executed an attempt without an answer. */
function isUncertain({ outcome }: Tried<unknown>): boolean {
  if (outcome.kind === "lost") return true;
  return (
    outcome.kind === "status" &&
    (outcome.status === 408 || (outcome.status >= 500 && outcome.status !== 501 && outcome.status !== 503))
  );
}

function jobEnd(code: string, { endpoint, recordsSent = 0 }: FreeCall<unknown>, tried: Tried<unknown>) {
  return code === "request_refused"
    ? callRefused(endpoint, tried, { recordsSent })
    : jobStopped(code, endpoint, tried);
}

/** Errors after attempts that may have been executed. */
const inDoubt = new WeakSet();

/** True for an error of a call of which an attempt without an answer may have been executed. */
export function mayBeDone(error: unknown): boolean {
  return typeof error === "object" && error !== null && inDoubt.has(error);
}

/**
 * Makes a free call, and retries it if that may help. Throws LimitReachedError, StopJobError or StopRunError, or the
 * signal's reason if aborted.
 */
export async function callFree<T>(options: FreeCallOptions, call: FreeCall<T>): Promise<FreeReply<T>> {
  const doubt = { isUncertain: false };
  try {
    return await callUntilDecided(options, call, doubt);
  } catch (error) {
    if (doubt.isUncertain && typeof error === "object" && error !== null) inDoubt.add(error);
    throw error;
  }
}

async function callUntilDecided<T>(
  options: FreeCallOptions,
  call: FreeCall<T>,
  doubt: { isUncertain: boolean },
): Promise<FreeReply<T>> {
  const { http, limiter, clock, log, signal, random } = options;
  let refusals = 0;
  let tries = 0;
  for (let attempt = 1; ; attempt++) {
    const tried = await tryOnce(options, call);
    const { outcome, error, cause, reply, value } = tried;
    options.onAttempt(attemptOf(call, tried, attempt, clock.now()));
    const isRefusal = outcome.kind === "not_sent" || (outcome.kind === "status" && outcome.status === 429);
    if (isRefusal) refusals += 1;
    else tries += 1;
    const doubts = call.isOnce ? (doubt.isUncertain ? 1 : 0) : null;
    const decision = decideFreeRetry(outcome, { refusals: refusals - 1, tries, doubts, random: random() });
    const giveUp = limiter.report(call.endpoint, reportOf(outcome, tried, decision));
    if (outcome.kind === "answer" && value !== null) {
      const { answeredAt, apiRequestId } = tried;
      return { kind: "answer", value, answeredAt, apiRequestId, mayBeDone: doubt.isUncertain };
    }
    if (outcome.kind === "status" && call.expects?.includes(outcome.status)) {
      const code = decision.action === "stop_job" ? decision.code : "unexpected_status";
      const stop = jobEnd(code, call, tried);
      return { kind: "refused", status: outcome.status, error, stop, mayBeDone: doubt.isUncertain };
    }
    doubt.isUncertain ||= isUncertain(tried);
    if (giveUp) throw giveUp;
    log.debug({ endpoint: call.endpoint, cause, attempt, action: decision.action }, "call_failed");
    if (decision.action === "renew_key") {
      const isNew = reply.kind === "response" && (await http.renewKey(reply.keyVersion, call.asUser));
      if (!isNew)
        throw call.asUser ? userKeyRejected(call.endpoint, error) : keyRejected(call.endpoint, error);
    } else if (decision.action === "use_capacity") throw capacityUsedUp(call.endpoint, error);
    else if (decision.action === "stop_run") throw redirected(call.endpoint, http.origin, reply);
    else if (decision.action === "stop_job") throw jobEnd(decision.code, call, tried);
    else if (decision.action === "retry") await clock.sleep(decision.afterMs, signal);
  }
}
