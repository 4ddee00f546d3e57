import { adviceFor } from "../advice.ts";
import { LimitReachedError, StopJobError, StopRunError } from "../errors.ts";
import type { ErrorBody } from "../schemas/error-body.ts";
import type { HttpReply } from "./http-client.ts";

/** Cause with the request ID, by which the service's support can find the call. */
export function where(cause: string, { apiRequestId }: ErrorBody): string {
  return apiRequestId === null ? cause : `${cause}, request ${apiRequestId}`;
}

/** Outcome of a call that ends its job. */
interface EndOfCall {
  readonly reply: HttpReply;
  readonly error: ErrorBody;
  /** Status and code, for messages. */
  readonly cause: string;
}

const BROKEN_OFF: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

/** Describes the reply, without a full stop. Codes of the HTTP client are not responses of the service. */
function describeReply({ reply, error, cause }: EndOfCall): string {
  if (reply.kind === "response") return `the service answered ${where(cause, error)}`;
  const { code } = reply;
  if (BROKEN_OFF.has(code)) return `the connection was lost (${code})`;
  return `no complete answer was received${code.includes("TIMEOUT") ? " in time" : ""} (${code})`;
}

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

/** Error for a rejected key that has not been replaced. */
export function keyRejected(endpoint: string, error: ErrorBody): StopRunError {
  return new StopRunError(
    "key_rejected",
    `${endpoint}: the service rejected the API key (${where("401", error)}) even after reading it again. ` +
      "Check service.api_key; keys are created in the service's organization settings.",
  );
}

/** Error for a rejected key of an endpoint that requires a user's. */
export function userKeyRejected(endpoint: string, error: ErrorBody): StopJobError {
  return new StopJobError(
    "user_key_required",
    `${endpoint}: the service rejected the API key (${where("401", error)}). Asynchronous person search requires the key of a ` +
      "user; keys of an organization alone are rejected. Create one in the service's web application and set service.user_api_key.",
  );
}

/** Error for a plan without credits. */
export function capacityUsedUp(endpoint: string, error: ErrorBody): LimitReachedError {
  const cause = error.code === null ? "402" : `402 ${error.code}`;
  return new LimitReachedError(
    "credits",
    `${endpoint}: the plan covers no further records (${where(cause, error)}). All answers are kept; ` +
      "run again when there are new credits.",
  );
}

/** Origin alone: the path may quote the request, even its key. */
function placeOf(location: string | null, origin: string): string {
  const url = URL.parse(location ?? "", origin);
  const isPlain = url !== null && /^https?:$/u.test(url.protocol) && /^[\w.-]{1,253}$/u.test(url.hostname);
  return location !== null && isPlain ? url.origin : "an unknown address";
}

/** Error for a redirect, which is not followed, so that the key is not sent elsewhere. */
export function redirected(endpoint: string, origin: string, reply: HttpReply): StopRunError {
  const location = reply.kind === "response" ? reply.location : null;
  return new StopRunError(
    "redirected",
    `${endpoint}: ${origin} answered ${reply.status} and points to ${placeOf(location, origin)}. Redirects are not ` +
      "followed, because they would receive the API key. Ask the service whether it has moved.",
  );
}
