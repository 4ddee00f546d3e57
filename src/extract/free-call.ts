import { randomUUID } from "node:crypto";
import type { Clock } from "../clock.ts";
import { crashPoint } from "../crash-point.ts";
import type { StopJobError } from "../errors.ts";
import type { Log } from "../log.ts";
import { cleanText, DriftLog, instantAt, instantText } from "../schemas/convert.ts";
import { type ErrorBody, readId } from "../schemas/error-body.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import type { Attempt } from "../schemas/ledger.ts";
import { decompress } from "./answer-body.ts";
import type { HttpClient, HttpReply } from "./http-client.ts";
import { parseBounded, type Parsed, TooLargeError, withoutMark } from "./json.ts";
import type { Limiter } from "./limits.ts";
import { plausibleTime } from "./read-answer.ts";
import {
  callRefused,
  capacityUsedUp,
  decideFreeRetry,
  isPossiblyBilled,
  jobStopped,
  keyRejected,
  redirected,
  userKeyRejected,
} from "./retry.ts";
import { attemptOf, NO_ERROR, reportOf, understandReply, type UnderstoodReply } from "./send-call.ts";

export interface FreeEndpoint {
  /** Method and path without parameters, as in the ledger (`GET /v2/segments/members`). */
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  /** True if it requires the key of a user. */
  readonly asUser?: true;
}

export interface FreeCall<T> {
  readonly endpoint: FreeEndpoint;
  /** Path and query; the endpoint's path by default. */
  readonly path?: string;
  /** JSON text; none by default. */
  readonly body?: string;
  /** Records in the body, for the ledger; those reserved by default, or 0. */
  readonly recordsSent?: number;
  /** Reservation in the ledger for what the call may charge, whose row becomes that of the attempt that may have charged it. */
  readonly reserved?: { readonly callId: string; readonly records: number } | undefined;
  /** Statuses handled by the caller; all others end the job. */
  readonly expects?: readonly number[];
  /** True if a repetition does the work again: an attempt without an answer is repeated only once. */
  readonly isOnce?: true;
  /** Parses a body of status 200 or 202; null if it is invalid, which causes a retry. `drift` is of this body alone. */
  readonly read: (bytes: Buffer, drift: DriftLog) => T | null;
}

interface FreeAnswer<T> {
  readonly kind: "answer";
  readonly value: T;
  readonly drift: DriftLog;
  /** Completion time reported by the service if plausible, otherwise from its `Date` header: UTC, microseconds kept. */
  readonly completedAt: string;
  readonly apiRequestId: string | null;
  /** True if an earlier attempt without an answer may also have been executed. */
  readonly mayBeDone: boolean;
}

export type FreeReply<T> =
  | FreeAnswer<T>
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly error: ErrorBody;
      /** Error that ends the job on this status elsewhere. */
      readonly stop: StopJobError;
      readonly mayBeDone: boolean;
    };

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

const possiblyDoneErrors = new WeakSet<object>();

/** True for an error of a call of which an attempt without an answer may have been executed. */
export function mayBeDone(error: unknown): boolean {
  return typeof error === "object" && error !== null && possiblyDoneErrors.has(error);
}

/**
 * Makes a free call, and retries it if that may help. Throws LimitReachedError, StopJobError or StopRunError, or the
 * signal's reason if aborted.
 */
export async function callFree<T>(options: FreeCallOptions, call: FreeCall<T>): Promise<FreeReply<T>> {
  const { http, limiter, clock, log, signal, random } = options;
  const { name: endpoint, asUser = false } = call.endpoint;
  let { reserved } = call;
  let mayBeDone = false;
  let refusals = 0;
  let tries = 0;
  try {
    for (let attempt = 1; ; attempt++) {
      const tried = await tryOnce(options, call);
      const { outcome, error, cause, reply, answer } = tried;
      const isExpected = outcome.kind === "status" && call.expects?.includes(outcome.status) === true;
      const isReserved = answer !== null || isExpected || isPossiblyBilled(outcome);
      options.onAttempt(ledgerEntry(call, tried, isReserved ? reserved : undefined, attempt, clock.now()));
      if (isReserved) reserved = undefined;
      const isRefusal = outcome.kind === "not_sent" || (outcome.kind === "status" && outcome.status === 429);
      if (isRefusal) refusals += 1;
      else tries += 1;
      const possiblyDone = call.isOnce && mayBeDone ? 1 : 0;
      const history = { refusals: refusals - 1, tries, possiblyDone, random: random() };
      const decision = decideFreeRetry(outcome, history);
      const giveUp = limiter.report(endpoint, reportOf(outcome, tried, decision));
      if (answer) return { ...answer, kind: "answer", mayBeDone };
      if (isExpected && outcome.kind === "status") {
        const code = decision.action === "stop_job" ? decision.code : "unexpected_status";
        return { kind: "refused", status: outcome.status, error, stop: jobEnd(code, call, tried), mayBeDone };
      }
      mayBeDone ||= isPossiblyBilled(outcome);
      if (giveUp) throw giveUp;
      log.debug({ endpoint, cause, attempt, action: decision.action }, "call_failed");
      if (decision.action === "renew_key") {
        const isNew = reply.kind === "response" && (await http.renewKey(reply.keyVersion, asUser));
        if (!isNew) throw asUser ? userKeyRejected(endpoint, error) : keyRejected(endpoint, error);
      } else if (decision.action === "use_capacity") throw capacityUsedUp(endpoint, error);
      else if (decision.action === "stop_run") throw redirected(endpoint, http.origin, reply);
      else if (decision.action === "stop_job") throw jobEnd(decision.code, call, tried);
      else if (decision.action === "retry") await clock.sleep(decision.afterMs, signal);
    }
  } catch (error) {
    if (mayBeDone && typeof error === "object" && error !== null) possiblyDoneErrors.add(error);
    throw error;
  }
}

interface Tried<T> extends UnderstoodReply {
  readonly reply: HttpReply;
  readonly startedAtMs: number;
  readonly answer:
    | (Omit<FreeAnswer<T>, "kind" | "mayBeDone"> & { readonly requestCompletedAt: string | null })
    | null;
}

async function tryOnce<T>(
  { http, limiter, clock, signal }: FreeCallOptions,
  call: FreeCall<T>,
): Promise<Tried<T>> {
  const { name, method, path, asUser = false } = call.endpoint;
  const request = { method, path: call.path ?? path, body: call.body ?? null, asUser };
  let startedAtMs = clock.now();
  const send = () => {
    startedAtMs = clock.now();
    crashPoint("before_send");
    return http.request(request);
  };
  const reply = await limiter.run(name, () => limiter.send(name, send), signal);
  crashPoint("after_receive");
  const receivedMs = clock.now();
  const tried = { reply, startedAtMs, answer: null };
  // Few free calls run at a time, and the parsed size is bounded by the body's size: it is released before it is read.
  if (reply.kind === "failure" || (reply.status !== 200 && reply.status !== 202)) {
    const understood = await understandReply(reply, clock);
    if (reply.kind === "response") reply.release();
    return { ...tried, ...understood };
  }
  const plain = await decompress(reply.body, reply.contentEncoding);
  reply.release();
  const drift = new DriftLog(name);
  const value = plain.kind === "plain" ? call.read(plain.bytes, drift) : null;
  if (plain.kind !== "plain" || value === null) {
    return { ...tried, outcome: { kind: "lost" }, error: NO_ERROR, cause: `${reply.status}, unreadable` };
  }
  const requestCompletedAt = instantText(fieldIn(plain.bytes, "request_completed_at"));
  const completedAt = requestCompletedAt ?? instantAt(byItsClock(receivedMs, reply.date));
  const answer = {
    value,
    drift,
    apiRequestId: readId(fieldIn(plain.bytes, "api_request_id")),
    requestCompletedAt,
    completedAt: plausibleTime(completedAt, instantAt(receivedMs)),
  };
  return { ...tried, outcome: { kind: "answer" }, error: NO_ERROR, cause: String(reply.status), answer };
}

function ledgerEntry<T>(
  call: FreeCall<T>,
  tried: Tried<T>,
  reserved: FreeCall<T>["reserved"],
  attempt: number,
  nowMs: number,
): Attempt {
  const { reply, startedAtMs, outcome, answer, error } = tried;
  const milliseconds = Math.max(0, nowMs - startedAtMs);
  const isSent = outcome.kind !== "not_sent";
  const end = {
    apiRequestId: answer?.apiRequestId ?? error.apiRequestId,
    requestCompletedAt: answer?.requestCompletedAt ?? null,
    httpStatus: reply.status,
    isSent,
    recordsSent: isSent ? (call.recordsSent ?? reserved?.records ?? 0) : 0,
    responseBytes: reply.kind === "response" ? reply.body.length : 0,
    possiblyBilled: reserved !== undefined,
    errorCode: error.code,
    errorDetails: error.figures,
  };
  const callId = reserved?.callId ?? randomUUID();
  const facts = { endpoint: call.endpoint.name, callId, attempt, startedAtMs, milliseconds };
  const entry = attemptOf({ ...facts, possiblyBilledBefore: [] }, end);
  return reserved ? { ...entry, isOpen: true } : entry;
}

function jobEnd(code: string, { endpoint, recordsSent = 0 }: FreeCall<unknown>, tried: Tried<unknown>) {
  return code === "request_refused"
    ? callRefused(endpoint.name, tried, { recordsSent })
    : jobStopped(code, endpoint.name, tried);
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

/** Reader for {@link FreeCall}, of bodies that are objects. */
export function fromEnvelope<T>(read: (body: JsonObject, drift: DriftLog) => T | null): FreeCall<T>["read"] {
  return (bytes, drift) => {
    const body = readEnvelope(bytes, drift);
    return body && read(body, drift);
  };
}

/** Bytes searched for envelope fields, which may precede or follow a long list of results. */
const HEAD_BYTES = 4096;

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
