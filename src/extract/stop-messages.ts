import { adviceFor } from "../advice.ts";
import { LimitReachedError, StopJobError, StopRunError } from "../errors.ts";
import type { ErrorBody } from "../schemas/error-body.ts";
import type { HttpReply } from "./http-client.ts";

/** What came back, with the id by which the service's support finds the call. */
export function where(cause: string, { apiRequestId }: ErrorBody): string {
  return apiRequestId === null ? cause : `${cause}, request ${apiRequestId}`;
}

/** What came of a call that ends its job. */
interface EndOfCall {
  readonly reply: HttpReply;
  readonly error: ErrorBody;
  /** Status and code in a word or two. */
  readonly cause: string;
}

const BROKEN_OFF: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

/** A sentence without its end; the codes of the HTTP client are no answer of the service. */
function cameBack({ reply, error, cause }: EndOfCall): string {
  if (reply.kind === "response") return `the service answered ${where(cause, error)}`;
  const { code } = reply;
  if (BROKEN_OFF.has(code)) return `the connection broke off (${code})`;
  return `no whole answer came${code.includes("TIMEOUT") ? " in time" : ""} (${code})`;
}

/** The job can't go on, whatever the records are. */
export function jobStopped(code: string, endpoint: string, end: EndOfCall): StopJobError {
  return new StopJobError(code, `${endpoint}: ${cameBack(end)}. ${adviceFor(code).next}`);
}

/** The service refuses a call that isn't searched for the records that it minds. */
export function callRefused(
  endpoint: string,
  end: EndOfCall,
  { recordsSent }: { readonly recordsSent: number },
): StopJobError {
  const settings = "It refuses the call as a whole: correct the job's own settings";
  const advice = recordsSent > 0 ? `${settings}, or what its query gives.` : `${settings}.`;
  return new StopJobError("request_refused", `${endpoint}: ${cameBack(end)}. ${advice}`);
}

/** The service no longer knows the key, and there is no other one. */
export function keyRejected(endpoint: string, error: ErrorBody): StopRunError {
  return new StopRunError(
    "key_rejected",
    `${endpoint}: the service rejected the API key (${where("401", error)}), also after reading it again. ` +
      "Check where service.api_key points; keys are made in the service's organization settings.",
  );
}

/** The plan covers no further records. */
export function capacityUsedUp(endpoint: string, error: ErrorBody): LimitReachedError {
  const cause = error.code === null ? "402" : `402 ${error.code}`;
  return new LimitReachedError(
    "credits",
    `${endpoint}: the plan covers no further records (${where(cause, error)}). All that was answered is kept; ` +
      "run again when there are new credits.",
  );
}

function placeOf(location: string | null, origin: string): string {
  if (location === null || !URL.canParse(location, origin)) return "an address that it doesn't name";
  const url = new URL(location, origin);
  return url.origin + url.pathname;
}

/** The service wants calls to go elsewhere; the key was not taken there. */
export function redirected(endpoint: string, origin: string, reply: HttpReply): StopRunError {
  const location = reply.kind === "response" ? reply.location : null;
  return new StopRunError(
    "redirected",
    `${endpoint}: ${origin} answered ${reply.status} and points to ${placeOf(location, origin)}. Redirects are not ` +
      "followed, because the key would go along; set service.base_url to the right address.",
  );
}
