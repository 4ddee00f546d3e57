import { adviceFor } from "../advice.ts";
import { LimitReachedError, StopJobError, StopRunError } from "../errors.ts";
import type { HttpReply } from "./http-client.ts";
import type { ErrorBody } from "../schemas/error-body.ts";

/** Maximum wait for a Retry-After header. */
export const MAX_RETRY_AFTER_MS = 5 * 60_000;

export type CallOutcome =
  /** 200 with a readable envelope. */
  | { readonly kind: "answer" }
  /** Complete response with another status. */
  | { readonly kind: "status"; readonly status: number; readonly retryAfterMs: number | null }
  /** No connection was made: the service can't have received the request. */
  | { readonly kind: "not_sent" }
  /** Sent, but without a complete and readable response: timeout, reset, incomplete or unreadable body, 200 without an envelope. */
  | { readonly kind: "lost" };

/** Earlier calls of the same records in this run. */
interface CallHistory {
  /** Earlier attempts that were certainly not billed. */
  readonly refusals: number;
  /** Earlier attempts that may have been billed without an answer. */
  readonly unansweredCalls: number;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: number;
}

export type Decision =
  | { readonly action: "accept" }
  | { readonly action: "retry"; readonly afterMs: number }
  /** Send the records no more in this run; they remain due. */
  | { readonly action: "set_aside" }
  /** Find the rejected records. */
  | { readonly action: "isolate" }
  | { readonly action: "halve" }
  | { readonly action: "use_capacity" }
  | { readonly action: "renew_key" }
  | { readonly action: "stop_job"; readonly code: string }
  | { readonly action: "stop_run"; readonly code: string };

type Retry = Extract<Decision, { action: "retry" }>;

interface Rule {
  readonly possiblyBilled: boolean;
  readonly decide: (history: CallHistory, retryAfterMs: number | null) => Decision;
}

const FIRST_BACKOFF_MS = 1000;
const MAX_BACKOFF_MS = 60_000;
/** A 429 and a failed connection are cheap for the service, and their end should be noticed soon. */
const MAX_SHORT_BACKOFF_MS = 5000;
/** A possibly billed attempt is repeated only once, so wait long enough for a short disturbance to pass. */
const POSSIBLY_BILLED_BACKOFF_MS = 5000;
const MAX_POSSIBLY_BILLED_TRIES = 2;
/** Maximum 503 responses for one batch while others are answered. */
const MAX_UNAVAILABLE_TRIES = 30;

/** Waits as long as the service requests (up to a limit), and at least a random part of a maximum ("full jitter"). */
function retry(random: number, ceilingMs: number, retryAfterMs: number | null): Retry {
  const asked = Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS);
  return { action: "retry", afterMs: Math.max(asked, Math.round(random * ceilingMs)) };
}

function backOff(history: CallHistory, retryAfterMs: number | null, maxMs = MAX_BACKOFF_MS): Retry {
  const ceilingMs = Math.min(maxMs, FIRST_BACKOFF_MS * 2 ** Math.min(history.refusals, 16));
  return retry(history.random, ceilingMs, retryAfterMs);
}

const always = (decision: Decision): Rule => ({ possiblyBilled: false, decide: () => decision });

/** Quota reached, or no connection. The limiter decides for all calls when to give up; see limits.ts. */
const refused: Rule = {
  possiblyBilled: false,
  decide: (history, retryAfterMs) => backOff(history, retryAfterMs, MAX_SHORT_BACKOFF_MS),
};

/** Not billed, and not caused by the records. Limited, so that one batch can't delay the end forever. */
const unavailable: Rule = {
  possiblyBilled: false,
  decide: (history, retryAfterMs) =>
    history.refusals + 1 >= MAX_UNAVAILABLE_TRIES ? { action: "set_aside" } : backOff(history, retryAfterMs),
};

/** The service may have billed the call and can't recognize a repetition, so retry at most once. */
const possiblyBilled: Rule = {
  possiblyBilled: true,
  decide: (history, retryAfterMs) =>
    history.unansweredCalls + 1 >= MAX_POSSIBLY_BILLED_TRIES
      ? { action: "set_aside" }
      : retry(history.random, POSSIBLY_BILLED_BACKOFF_MS, retryAfterMs),
};

const ruleByStatus: Readonly<Record<number, Rule>> = {
  400: always({ action: "isolate" }),
  401: always({ action: "renew_key" }),
  402: always({ action: "use_capacity" }),
  403: always({ action: "stop_job", code: "forbidden" }),
  404: always({ action: "stop_job", code: "not_found" }),
  405: always({ action: "stop_job", code: "method_not_allowed" }),
  // Sent by a proxy, which can't know whether the service received the request.
  408: { possiblyBilled: true, decide: () => ({ action: "set_aside" }) },
  413: always({ action: "halve" }),
  422: always({ action: "isolate" }),
  429: refused,
  503: unavailable,
};

function ruleOfStatus(status: number): Rule {
  const rule = ruleByStatus[status];
  if (rule) return rule;
  if (status >= 300 && status < 400) return always({ action: "stop_run", code: "redirected" });
  if (status >= 400 && status < 500) return always({ action: "stop_job", code: "unexpected_status" });
  return possiblyBilled;
}

const ruleByKind: Readonly<Record<Exclude<CallOutcome["kind"], "status">, Rule>> = {
  answer: always({ action: "accept" }),
  not_sent: refused,
  lost: possiblyBilled,
};

function ruleOf(outcome: CallOutcome): Rule {
  return outcome.kind === "status" ? ruleOfStatus(outcome.status) : ruleByKind[outcome.kind];
}

const MAX_FREE_TRIES = 8;

type FreeDecision = Exclude<Decision, { action: "isolate" | "halve" | "set_aside" }>;

/**
 * Decides what to do after a free call; pure. `tries` counts attempts except 429 responses and failed connections, which
 * are limited for all calls of the run. `possiblyDone` counts earlier attempts that may have been executed; 0 for an
 * idempotent call.
 */
export function decideFreeRetry(
  outcome: CallOutcome,
  history: Pick<CallHistory, "refusals" | "random"> & {
    readonly tries: number;
    readonly possiblyDone: number;
  },
): FreeDecision {
  const retryAfterMs = outcome.kind === "status" ? outcome.retryAfterMs : null;
  const decision = decideRetry(outcome, { ...history, unansweredCalls: 0 });
  if (decision.action === "isolate" || decision.action === "halve") {
    return { action: "stop_job", code: "request_refused" };
  }
  const isPassing = isPossiblyBilled(outcome) || (outcome.kind === "status" && outcome.status === 503);
  if (!isPassing && decision.action !== "set_aside") return decision;
  const isRepeated = isPossiblyBilled(outcome) && history.possiblyDone + 1 >= MAX_POSSIBLY_BILLED_TRIES;
  if (isRepeated || history.tries >= MAX_FREE_TRIES) return { action: "stop_job", code: "no_answer" };
  return backOff({ refusals: history.tries - 1, unansweredCalls: 0, random: history.random }, retryAfterMs);
}

/** Decides what to do with the records of a call; pure. */
export function decideRetry(outcome: CallOutcome, history: CallHistory): Decision {
  return ruleOf(outcome).decide(history, outcome.kind === "status" ? outcome.retryAfterMs : null);
}

/** True if the call may have been billed without an answer. */
export function isPossiblyBilled(outcome: CallOutcome): boolean {
  return ruleOf(outcome).possiblyBilled;
}

/** HTTP dates start with the name of a day. Date.parse alone accepts texts that are not dates. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /u;

/**
 * Parses a Retry-After header (seconds or HTTP date) to milliseconds, without an upper limit; null if missing or invalid.
 */
export function parseRetryAfter(header: string | null, nowMs: number): number | null {
  const text = header?.trim() ?? "";
  if (/^\d+(?:\.\d+)?$/u.test(text)) return Math.round(Number(text) * 1000);
  if (!HTTP_DATE.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs);
}

interface EndOfCall {
  readonly reply: HttpReply;
  readonly error: ErrorBody;
  readonly cause: string;
}

const BROKEN_OFF: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

/** Error that ends the job, independent of its records. */
export function jobStopped(code: string, endpoint: string, end: EndOfCall): StopJobError {
  return new StopJobError(code, `${endpoint}: ${describeReply(end)}. ${adviceFor(code).next}`);
}

/** Error for a rejected request on an endpoint without per-record isolation. */
export function callRefused(
  endpoint: string,
  end: EndOfCall,
  { recordsSent }: { readonly recordsSent: number },
): StopJobError {
  const settings = "It rejects the whole call: correct the job's settings";
  const advice = recordsSent > 0 ? `${settings} or its query.` : `${settings}.`;
  return new StopJobError("request_refused", `${endpoint}: ${describeReply(end)}. ${advice}`);
}

export function keyRejected(endpoint: string, error: ErrorBody): StopRunError {
  return new StopRunError(
    "key_rejected",
    `${endpoint}: the service rejected the API key (${where("401", error)}) even after reading it again. ` +
      "Check service.api_key; keys are created in the service's organization settings.",
  );
}

export function userKeyRejected(endpoint: string, error: ErrorBody): StopJobError {
  return new StopJobError(
    "user_key_required",
    `${endpoint}: the service rejected the API key (${where("401", error)}). Asynchronous person search requires the key of a ` +
      "user; keys of an organization alone are rejected. Create one in the service's web application and set service.user_api_key.",
  );
}

export function capacityUsedUp(endpoint: string, error: ErrorBody): LimitReachedError {
  const cause = error.code === null ? "402" : `402 ${error.code}`;
  return new LimitReachedError(
    "credits",
    `${endpoint}: the plan covers no more records (${where(cause, error)}). All responses are kept; ` +
      "run again when there are new credits.",
  );
}

/** Error for a redirect, which is not followed, so that the key is not sent elsewhere. */
export function redirected(endpoint: string, origin: string, reply: HttpReply): StopRunError {
  const location = reply.kind === "response" ? reply.location : null;
  return new StopRunError(
    "redirected",
    `${endpoint}: ${origin} returned ${reply.status} and points to ${placeOf(location, origin)}. Redirects are not ` +
      "followed, because they would receive the API key. Ask the service whether it has moved.",
  );
}

/** Origin alone: the path may quote the request, even its key. */
function placeOf(location: string | null, origin: string): string {
  const url = URL.parse(location ?? "", origin);
  const isPlain = url !== null && /^https?:$/u.test(url.protocol) && /^[\w.-]{1,253}$/u.test(url.hostname);
  return location !== null && isPlain ? url.origin : "an unknown address";
}

/** Describes the reply, without a full stop. Codes of the HTTP client are not responses of the service. */
function describeReply({ reply, error, cause }: EndOfCall): string {
  if (reply.kind === "response") return `the service returned ${where(cause, error)}`;
  const { code } = reply;
  if (BROKEN_OFF.has(code)) return `the connection was lost (${code})`;
  return `no complete response was received${code.includes("TIMEOUT") ? " in time" : ""} (${code})`;
}

/** Cause with the request ID, by which the service's support can find the call. */
export function where(cause: string, { apiRequestId }: ErrorBody): string {
  return apiRequestId === null ? cause : `${cause}, request ${apiRequestId}`;
}
