import { LimitReachedError, StopJobError, StopRunError } from "../errors.ts";
import type { ErrorBody } from "../schemas/error-body.ts";
import type { HttpReply } from "./http-client.ts";

/** What came back, with the id by which the service's support finds the call. */
export function where(cause: string, { apiRequestId }: ErrorBody): string {
  return apiRequestId === null ? cause : `${cause}, request ${apiRequestId}`;
}

/** What to do about each reason why a job can't go on. */
const adviceByCode: Readonly<Record<string, string>> = {
  forbidden:
    "The key is valid but its plan doesn't cover this call: ask for one that does, or take the job out.",
  not_found:
    "The service doesn't know this path: check service.base_url, also for a path that doesn't belong there.",
  method_not_allowed: "The path exists but doesn't take this call: check service.base_url.",
  no_answer: "It was asked several times. What was committed before is kept; run again later.",
  request_refused: "The fault lies outside the records, so in the job's own parameters: correct them.",
};

/** The job can't go on, whatever the records are. */
export function jobStopped(code: string, endpoint: string, cause: string, error: ErrorBody): StopJobError {
  const advice = adviceByCode[code] ?? "The interface knows no such response here.";
  return new StopJobError(code, `${endpoint}: the service answered ${where(cause, error)}. ${advice}`);
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
